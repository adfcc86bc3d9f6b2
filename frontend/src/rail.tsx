/** The rail on the left: tables with search, size, growth and what is due. */
import type { Store } from "./store";

export function Rail({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
