/** The entry that anywidget calls with a model and an element; it returns what cleans up. */
import "./theme.css"; // first: what components say comes after it
import { render } from "preact";
import { App } from "./app";
import { watchAppearance } from "./appearance";
import type { Model } from "./kernel";
import { Store } from "./store";

function show({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const store = new Store(model);
  const unwatch = watchAppearance(el, (dark) => {
    store.dark.value = dark;
  });
  render(<App store={store} />, el);
  return () => {
    unwatch();
    render(null, el);
    store.close();
  };
}

export default { render: show };
