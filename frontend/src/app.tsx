/** The layout of the page: rail, time bar, tabs, footer. */
import { ChangesTab } from "./changes";
import { FooterBar } from "./footer";
import { HistoryTab } from "./history";
import { PartitionsTab } from "./partitions";
import type { Tab } from "./protocol";
import { Rail } from "./rail";
import { RowsTab } from "./rows";
import { SchemaTab } from "./schema";
import { SqlTab } from "./sql";
import type { Store } from "./store";
import { TimeBar } from "./timebar";

const TABS: Record<Tab, { title: string; Page: (parts: { store: Store }) => preact.JSX.Element }> = {
  rows: { title: "Rows", Page: RowsTab },
  changes: { title: "Changes", Page: ChangesTab },
  schema: { title: "Schema", Page: SchemaTab },
  partitions: { title: "Partitions", Page: PartitionsTab },
  history: { title: "History", Page: HistoryTab },
  sql: { title: "SQL", Page: SqlTab },
};

export function App({ store }: { store: Store }) {
  const { Page } = TABS[store.tab.value];
  return (
    <div class="sx">
      <Rail store={store} />
      <TimeBar store={store} />
      <Page store={store} />
      <FooterBar store={store} />
    </div>
  );
}
