/** The Partitions tab: key space to the scale of rows, with files as layers. */
import type { Store } from "./store";

export function PartitionsTab({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
