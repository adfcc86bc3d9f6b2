/** The time bar: versions as a stepped area, kinds of commit, savepoints, and one or two handles. */
import type { Store } from "./store";

export function TimeBar({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
