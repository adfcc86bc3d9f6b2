/** The layout of the page: rail, time bar, tabs, footer; its height, and the full screen. */
import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import "./app.css";
import { ChangesTab } from "./changes";
import { drag, useFullScreen, useOwnKeys, useSize } from "./elements";
import { px } from "./format";
import { FooterBar, InsertCell } from "./footer";
import { HEIGHT, heightFor, heightOf, within } from "./height";
import { HistoryTab } from "./history";
import { stepTo } from "./menu";
import { PartitionsTab } from "./partitions";
import type { Tab } from "./protocol";
import { Rail } from "./rail";
import { RowsTab } from "./rows";
import { SchemaTab } from "./schema";
import { AnswerPage, SqlTab } from "./sql";
import { Button, Copy, Empty, Failure } from "./states";
import type { Store } from "./store";
import { TimeBar } from "./timebar";

type Page = ComponentType<{ store: Store }>;

const TABS: { tab: Tab; title: string; Page: Page }[] = [
  { tab: "rows", title: "Rows", Page: RowsTab },
  { tab: "changes", title: "Changes", Page: ChangesTab },
  { tab: "schema", title: "Schema", Page: SchemaTab },
  { tab: "partitions", title: "Partitions", Page: PartitionsTab },
  { tab: "history", title: "History", Page: HistoryTab },
  { tab: "sql", title: "SQL", Page: SqlTab },
];
const ROW = 24; // of a table
const NARROW = 800; // below this width the rail is behind a button
const ROOMY = 1100; // below this width the time bar is low where other things matter

export function App({ store }: { store: Store }) {
  const root = useRef<HTMLDivElement>(null);
  const { width } = useSize(root);
  const [height, setHeight] = useState(() => firstHeight(store));
  const { isFull, toggle } = useFullScreen(root);
  useOwnKeys(root);
  const { mode } = store.start;
  const isNarrow = width > 0 && width < NARROW;
  const isLow = (width > 0 && width < ROOMY) || (!isFull && height < HEIGHT.first);
  const isShort = store.opened.value.value?.versions.number.length === 1; // nothing to see in the area
  const isFolded = isShort || (isLow && store.tab.value !== "rows" && store.tab.value !== "history");
  const isBare = mode === "explorer" && store.listed.value && store.names.value.length === 0;
  const hasRail = mode === "explorer" && !isBare;
  const classes = ["sx", `sx-mode-${mode.replace(" ", "-")}`];
  if (isFull) classes.push("sx-full");
  if (hasRail && !isNarrow) classes.push("sx-with-rail");
  return (
    <div
      class={classes.join(" ")} ref={root} data-theme={store.dark.value ? "dark" : "light"}
      style={isFull ? undefined : { height: px(height) }}
    >
      {isBare ? <NoTables store={store} /> : mode === "answer" ? (
        <Guard name={mode}><AnswerPage store={store} /></Guard>
      ) : (
        <>
          {hasRail && !isNarrow && <Rail store={store} />}
          <div class="sx-body">
            <TimeBar
              store={store} picker={hasRail && isNarrow} narrow={isNarrow} folded={isFolded}
              fullScreen={{ isFull, toggle }}
            />
            <Main store={store} />
          </div>
        </>
      )}
      {!isBare && <FooterBar store={store} />}
      {!isFull && <HeightHandle height={height} onChange={setHeight} />}
    </div>
  );
}

function firstHeight({ start, kernel }: Store): number {
  if (start.mode !== "answer") return HEIGHT.first;
  return heightOf(kernel.peek("page", { first: 0, count: 100 })?.rows.length ?? 0, ROW);
}

function Main({ store }: { store: Store }) {
  const id = useId();
  const chosen = store.tab.value;
  const { failure, value } = store.opened.value;
  const { Page } = TABS.find((each) => each.tab === chosen) ?? TABS[0]!;
  const onKeyDown = (event: KeyboardEvent): void => {
    const to = stepTo(event.key, TABS.findIndex((each) => each.tab === chosen), TABS.length);
    if (to === null) return;
    event.preventDefault();
    store.tab.value = TABS[to]!.tab;
    (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")[to]?.focus();
  };
  return (
    <>
      <div class="sx-tabs" role="tablist" aria-label="Views" onKeyDown={onKeyDown}>
        {TABS.map(({ tab, title }) => (
          <button
            key={tab} type="button" class="sx-tab" role="tab" id={`${id}-${tab}`} aria-selected={tab === chosen}
            aria-controls={`${id}-panel`} tabIndex={tab === chosen ? 0 : -1} onClick={() => (store.tab.value = tab)}
          >
            <span class="sx-tab-title" data-title={title}>{title}</span>
          </button>
        ))}
      </div>
      <div class="sx-panel" role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`} tabIndex={0}>
        {failure && value === null ? (
          <div class="sx-panel-failure"><Failure failure={failure} onRetry={() => void store.refresh()} /></div>
        ) : <Guard name={`${chosen} ${store.table.value}`}><Page key={store.table.value} store={store} /></Guard>}
      </div>
    </>
  );
}

/** Says what broke in a part of the page, so that the rest stays; another `name` tries again. */
class Guard extends Component<{ name: string; children: ComponentChildren }, { error: Error | null; name: string }> {
  override state = { error: null as Error | null, name: this.props.name };

  static override getDerivedStateFromProps(props: { name: string }, state: { error: Error | null; name: string }) {
    return props.name === state.name ? null : { error: null, name: props.name };
  }

  override componentDidCatch(error: Error): void {
    console.error(error);
    this.setState({ error });
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    const message = `This view cannot be drawn: ${error.message}`;
    const failure = { message, hint: "Your data is not touched by this." };
    return (
      <div class="sx-panel-failure"><Failure failure={failure} onRetry={() => this.setState({ error: null })} /></div>
    );
  }
}

/** A warehouse without tables, and how to make one. */
function NoTables({ store }: { store: Store }) {
  const line = "%sleeper create --form";
  return (
    <Empty
      title="This warehouse has no tables" icon="table"
      action={
        <>
          <code class="sx-command">{line}</code>
          <Copy text={line} />
          {store.start.canWrite && <InsertCell store={store} line={line} look="primary" />}
          <Button icon="refresh" onClick={() => void store.refresh()}>Refresh</Button>
        </>
      }
    >
      Create one from a DataFrame, a file or column by column: run this line in a cell.
    </Empty>
  );
}

function HeightHandle({ height, onChange }: { height: number; onChange: (height: number) => void }) {
  return (
    <div
      class="sx-height" role="separator" aria-orientation="horizontal" aria-label="Height" aria-valuemin={HEIGHT.least}
      aria-valuemax={HEIGHT.most} aria-valuenow={height} title="Drag to change the height" tabIndex={0}
      onPointerDown={(event) => drag(event, (_, y) => onChange(within(height + y)))}
      onDblClick={() => onChange(HEIGHT.first)}
      onKeyDown={(event) => {
        const to = heightFor(event.key, height);
        if (to === null) return;
        event.preventDefault();
        onChange(to);
      }}
    />
  );
}
