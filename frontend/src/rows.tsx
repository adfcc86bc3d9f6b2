/** The Rows tab: a virtual grid whose headers filter each other. */
import type { Store } from "./store";

export function RowsTab({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
