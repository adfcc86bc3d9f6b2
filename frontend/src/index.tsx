/** The entry that anywidget calls with a model and an element; it returns what cleans up. */
import { render } from "preact";
import { App } from "./app";
import "./theme.css";
import type { Model } from "./kernel";
import { Store } from "./store";

function show({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const store = new Store(model);
  render(<App store={store} />, el);
  return () => {
    render(null, el);
    store.close();
  };
}

export default { render: show };
