/** The History tab: commits, the newest first. */
import type { Store } from "./store";

export function HistoryTab({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
