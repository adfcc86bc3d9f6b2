/** The footer: the equivalent command, what was read, and how long it took. */
import type { Store } from "./store";

export function FooterBar({ store }: { store: Store }) {
  return <div>{store.table.value}</div>;
}
