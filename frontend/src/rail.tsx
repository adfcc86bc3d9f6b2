/** The rail on the left: tables with search, size, growth and what is due; in a narrow page behind a button. */
import { signal } from "@preact/signals";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import { bytes, count, plural, px, short } from "./format";
import { Icon } from "./icons";
import { failureOf } from "./kernel";
import { rowFor, useListWindow } from "./list_window";
import { PopoverButton } from "./popover";
import type { Failure as Reason, Found, TableDetails } from "./protocol";
import "./rail.css";
import { dueText, type Listed, listed, missing, sparkPath } from "./rail_list";
import { Button, Chip, Empty, Failure, SearchField, Skeleton } from "./states";
import { type Loaded, NOTHING, type Store } from "./store";

const ROW = 52;
const PAUSE = 200; // milliseconds without a key before the kernel searches
const SCROLL_PAUSE = 60;
const SPARK = { width: 32, height: 18 };

/** What is known of tables, and of the search for them. */
class Known {
  readonly details = signal<ReadonlyMap<string, TableDetails>>(new Map());
  readonly searched = signal<Loaded<{ found: Found[] }>>(NOTHING);
  private asking = new Set<string>(); // names whose details are under way
  private timer = 0;
  private searching = 0;

  constructor(private readonly store: Store) {}

  /** Ask for the details of names in view, when scrolling rests. */
  show(names: string[]): void {
    window.clearTimeout(this.timer);
    const known = this.details.peek();
    const asked = missing(names, known);
    if (asked.every((name) => this.asking.has(name))) return; // also when all is known
    this.timer = window.setTimeout(() => void this.ask(asked), known.size === 0 ? 0 : SCROLL_PAUSE);
  }

  search(text: string): void {
    window.clearTimeout(this.searching);
    this.searched.value = NOTHING;
    this.store.kernel.cancel("search");
    const asked = { text: text.trim() };
    if (!asked.text) return;
    const find = (): void => void this.store.load(this.searched, "search", asked, { parts: true });
    this.searching = window.setTimeout(find, PAUSE);
  }

  /** Sizes may have changed: ask again for what is in view. */
  forget(): void {
    if (this.details.peek().size > 0) this.details.value = new Map();
    this.asking = new Set();
    this.searched.value = { ...this.searched.peek(), failure: null };
  }

  end(): void {
    window.clearTimeout(this.timer);
    window.clearTimeout(this.searching);
  }

  private async ask(names: string[]): Promise<void> {
    const keep = (tables: TableDetails[]): void => {
      this.details.value = new Map([...this.details.peek(), ...tables.map((each) => [each.name, each] as const)]);
    };
    const asking = new Set(names);
    this.asking = asking;
    try {
      keep((await this.store.kernel.ask("details", { names }, { onPart: ({ tables }) => keep(tables) })).tables);
    } catch (error) {
      const failure = failureOf(error);
      if (failure) keep(names.map((name) => unread(name, failure)));
    } finally {
      if (this.asking === asking) this.asking = new Set();
    }
  }
}

function unread(name: string, { message, hint }: Reason): TableDetails {
  return { name, rows: 0, bytes: 0, growth: [], due: [], problem: [message, hint].filter(Boolean).join(" ") };
}

export function Rail({ store }: { store: Store }) {
  return <nav class="sx-rail" aria-label="Warehouse"><TableList store={store} onChosen={() => undefined} /></nav>;
}

/** The name of the table as a button, which opens the rail over the page. */
export function TablePicker({ store }: { store: Store }) {
  const face = (
    <>
      <span class="sx-cut">{store.table.value}</span>
      <Icon name="down" />
    </>
  );
  return (
    <div class="sx-picker">
      <PopoverButton
        class="sx-picker-button" aria-label={`Table ${store.table.value}: choose another`}
        label="Tables of the warehouse" panel="sx-picker-list" face={face}
      >
        {(close) => <TableList store={store} onChosen={close} />}
      </PopoverButton>
    </div>
  );
}

function TableList({ store, onChosen }: { store: Store; onChosen: () => void }) {
  const known = useMemo(() => new Known(store), [store]);
  const [text, setText] = useState("");
  const [active, setActive] = useState(-1);
  const id = useId();
  const names = store.names.value;
  const failure = known.searched.value.failure ?? store.unlisted.value;
  const found = known.searched.value.value?.found ?? null;
  const rows = useMemo(() => listed(names, text, found), [names, text, found]);
  const chosen = rows.findIndex((each) => each.name === store.table.value);
  const at = Math.min(active < 0 ? chosen : active, rows.length - 1);
  const { box, height, first, end, page, onScroll, reveal } = useListWindow(rows.length, ROW);
  const shown = rows.slice(first, end);
  const details = known.details.value;

  useEffect(() => () => known.end(), [known]);
  useEffect(() => known.forget(), [known, store.refreshes.value]);
  useEffect(() => known.show(shown.map((each) => each.name)));
  useEffect(() => {
    // The table that is shown is in view when the list is drawn for the first time.
    if (height > 0 && chosen >= 0) reveal(chosen);
  }, [height > 0]);

  const choose = (index: number): void => {
    const row = rows[index];
    if (row === undefined) return;
    setActive(index);
    void store.choose(row.name);
    onChosen();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const isTyping = event.currentTarget instanceof HTMLInputElement;
    const to = isTyping && /Home|End/.test(event.key) ? null : rowFor(event.key, at, rows.length, page);
    if (event.key === "Enter" || (event.key === " " && !isTyping)) choose(Math.max(0, text && active < 0 ? 0 : at));
    else if (to !== null) {
      setActive(to);
      reveal(to);
    } else return;
    event.preventDefault();
  };
  return (
    <>
      <div class="sx-rail-head">
        <label class="sx-search">
          <Icon name="search" />
          <SearchField
            label="Find tables by name, column or comment" placeholder="Find tables"
            title="By name, column, key or comment" aria-controls={`${id}-list`} value={text}
            onText={(typed) => {
              setText(typed);
              setActive(typed ? 0 : -1);
              reveal(0);
              known.search(typed);
            }}
            onKeyDown={onKeyDown}
          />
        </label>
        <Button
          look="quiet" icon="refresh" aria-label="Refresh" title="Look for new tables and versions"
          onClick={() => void store.refresh()}
        />
      </div>
      {failure && <Failure failure={failure} onRetry={() => void store.refresh()} />}
      <div
        class="sx-rail-list" ref={box} id={`${id}-list`} role="listbox" aria-label="Tables" tabIndex={0}
        aria-activedescendant={at >= first && at < end ? `${id}-${at}` : undefined} onScroll={onScroll}
        onKeyDown={onKeyDown}
      >
        {!store.listed.value && failure === null && <Waiting />}
        <div class="sx-rail-all" role="presentation" style={{ height: px(rows.length * ROW) }}>
          {shown.map((row, i) => (
            <Row
              key={row.name} id={`${id}-${first + i}`} row={row} details={details.get(row.name)} index={first + i}
              of={rows.length} isChosen={row.name === store.table.value} isActive={first + i === at}
              onChoose={() => choose(first + i)} onDue={() => (store.tab.value = "partitions")}
            />
          ))}
        </div>
      </div>
      {rows.length === 0 && text && (
        <div class="sx-rail-none">
          <Empty title="No table matches">Search looks at names, columns and comments.</Empty>
        </div>
      )}
      <div class="sx-rail-foot sx-muted" role="status">
        {store.listed.value && countText(rows.length, names.length, text)}
      </div>
    </>
  );
}

interface RowParts {
  id: string;
  row: Listed;
  details: TableDetails | undefined;
  index: number;
  of: number;
  isChosen: boolean;
  isActive: boolean;
  onChoose: () => void;
  onDue: () => void; // before it is chosen
}

function Row({ id, row, details, index, of, isChosen, isActive, onChoose, onDue }: RowParts) {
  const due = details?.due ?? [];
  return (
    <div
      id={id} class={`sx-rail-row${isActive ? " sx-rail-active" : ""}`}
      style={{ top: px(index * ROW), height: px(ROW) }} role="option" aria-selected={isChosen} aria-setsize={of}
      aria-posinset={index + 1} title={titleOf(row.name, details)} onClick={onChoose}
    >
      <span class="sx-rail-line">
        <span class="sx-rail-name sx-cut">{row.name}</span>
        {due.length > 0 && <span class="sx-rail-due" onClick={onDue}><Chip tone="warning">{dueText(due)}</Chip></span>}
      </span>
      <span class="sx-rail-line">
        <span class="sx-rail-size sx-cut sx-muted">{row.reason || sizeOf(details)}</span>
        {details && !details.problem && <Spark growth={details.growth} />}
      </span>
    </div>
  );
}

/** Rows as they will be, until the names are there. */
function Waiting() {
  return (
    <div class="sx-rail-waiting" role="presentation">
      {Array.from({ length: 4 }, (_, i) => (
        <div key={i} class="sx-rail-row" style={{ top: px(i * ROW), height: px(ROW) }} role="presentation">
          <Skeleton width="60%" />
          <Skeleton width="80%" />
        </div>
      ))}
    </div>
  );
}

function sizeOf(details: TableDetails | undefined) {
  if (details === undefined) return <span class="sx-rail-wait" />;
  if (details.problem) return <span class="sx-rail-problem">Cannot be read</span>;
  const rows = details.rows < 10_000 ? plural(details.rows, "row") : `${short(details.rows)} rows`;
  return `${rows}, ${bytes(details.bytes)}`;
}

function countText(shown: number, all: number, text: string): string {
  return text ? `${count(shown)} of ${plural(all, "table")}` : plural(all, "table");
}

function titleOf(name: string, details: TableDetails | undefined): string {
  if (details === undefined) return name;
  if (details.problem) return `${name}: ${details.problem}`;
  const due = details.due.length > 0 ? `\nDue: ${details.due.join(", ")}` : "";
  return `${name}\n${plural(details.rows, "row")}, ${bytes(details.bytes)}${due}`;
}

function Spark({ growth }: { growth: readonly number[] }) {
  const { width, height } = SPARK;
  const box = `-1 -2 ${width + 2} ${height + 3}`;
  return (
    <svg class="sx-rail-spark" width={width} height={height} viewBox={box} aria-hidden="true">
      <path d={sparkPath(growth, width, height)} />
    </svg>
  );
}
