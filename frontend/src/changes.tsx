/** The Changes tab: rows, columns, files and partitions that differ between two versions; roll back and savepoint. */
import type { Store } from "./store";

export function ChangesTab({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
