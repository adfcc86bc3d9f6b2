/** The Schema tab: columns, keys, comments and properties at the version. */
import type { Store } from "./store";

export function SchemaTab({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
