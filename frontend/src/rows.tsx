/** The Rows tab: a virtual grid whose headers filter each other. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { chipText, isFiltered, statementOf, withoutFilter } from "./filters";
import { count, plural } from "./format";
import { ColumnsButton } from "./grid/columns_menu";
import { Grid } from "./grid/grid";
import { GridSkeleton } from "./grid/grid_parts";
import { Icon } from "./icons";
import { PopoverButton } from "./popover";
import type { Requests } from "./protocol";
import "./rows.css";
import { RowsModel } from "./rows_model";
import { Button, Copy, Empty, Failure, SearchField } from "./states";
import { type Loaded, NO_QUERY, NOTHING, type Store } from "./store";

const TYPING = 300; // ms after the last key, before a search begins

interface Seen { first: number; end: number; total: number | null }

export function RowsTab({ store }: { store: Store }) {
  const model = RowsModel.of(store);
  const seen = useSignal<Seen>({ first: 0, end: 0, total: null });
  useEffect(() => model.activate(), [model]);
  const source = model.source.value;
  const isEmpty = store.schema.value.value?.rows === 0;
  const failure = store.schema.value.failure;
  if (failure !== null && source === null) {
    return <div class="sx-rows"><Failure failure={failure} /></div>;
  }
  return (
    <div class="sx-rows">
      <div class="sx-rows-bar">
        <Search store={store} model={model} />
        <Chips store={store} model={model} />
        <Where where={model.answer.value?.where ?? ""} />
        <Shown seen={seen.value} brushed={model.brushedRows.value} all={store.schema.value.value?.rows ?? null} />
        <ColumnsButton columns={model.columns.value} layout={model.layout} />
        {!isEmpty && <Carry store={store} model={model} />}
      </div>
      {source === null ? <GridSkeleton /> : (
        <Grid
          source={source} label={`Rows of ${store.table.value}`} sorting={model.sorting.value} layout={model.layout}
          {...(isEmpty ? {} : { headers: model.headers })} empty={<NoRows store={store} model={model} />}
          onShown={(first, end, total) => (seen.value = { first, end, total })}
        />
      )}
    </div>
  );
}

function Search({ store, model }: { store: Store; model: RowsModel }) {
  const text = useSignal(store.query.value.search);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const applied = store.query.value.search;
  useEffect(() => void (text.value = applied), [applied]);
  useEffect(() => () => stop(), []);
  const stop = (): void => {
    if (timer.current !== null) clearTimeout(timer.current);
  };
  const apply = (value: string): void => {
    stop();
    const query = store.query.peek();
    if (value.trim() !== query.search.trim()) model.setQuery({ ...query, search: value.trim() });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter") apply(text.value);
    else if (event.key === "Escape" && text.value !== "") {
      text.value = "";
      apply("");
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <label class="sx-search">
      <Icon name="search" />
      <SearchField
        label="Search the text columns" placeholder="Search text columns" value={text.value}
        onText={(value) => {
          text.value = value;
          stop();
          timer.current = setTimeout(() => apply(value), TYPING);
        }}
        onKeyDown={onKeyDown}
      />
    </label>
  );
}

/** The filters, each with a button that removes it. */
function Chips({ store, model }: { store: Store; model: RowsModel }) {
  const query = store.query.value;
  const headers = model.shown.value;
  if (!isFiltered(query)) return <div class="sx-rows-chips" />;
  const chips = query.filters.map((each) => {
    const { column, condition } = chipText(each, headers[each.column] ?? null);
    return { name: column, condition, remove: () => model.setQuery(withoutFilter(store.query.peek(), each)) };
  });
  if (query.search) {
    const remove = (): void => model.setQuery({ ...store.query.peek(), search: "" });
    chips.push({ name: "any text", condition: `has “${query.search}”`, remove });
  }
  return (
    <ul class="sx-rows-chips" aria-label="Filters">
      {chips.map(({ name, condition, remove }) => (
        <li key={`${name} ${condition}`} class="sx-rows-chip">
          <span title={`${name} ${condition}`}>
            <span class="sx-rows-chip-name">{name}</span> {condition}
          </span>
          <button type="button" aria-label={`Remove the filter of ${name}`} onClick={remove}>
            <Icon name="close" />
          </button>
        </li>
      ))}
      {chips.length > 1 && (
        <li>
          <Button look="quiet" onClick={() => model.setQuery({ ...store.query.peek(), filters: [], search: "" })}>
            Clear all
          </Button>
        </li>
      )}
    </ul>
  );
}

/** `Rows 1–23 of 17,283`, and of how many the filters took them. */
function Shown({ seen, brushed, all }: { seen: Seen; brushed: number | null; all: number | null }) {
  const { first, end, total } = seen;
  const of = total === null ? `${count(end)}+` : count(total);
  return (
    <div class="sx-rows-shown">
      {brushed !== null ? <strong>{plural(brushed, "row")}</strong> : end > first ? (
        <>
          Rows {count(first + 1)}–{count(end)} of <strong>{of}</strong>
        </>
      ) : (
        total === 0 && <strong>No rows</strong>
      )}
      {all !== null && (brushed ?? total ?? all) < all && <span class="sx-muted"> ({count(all)} in all)</span>}
    </div>
  );
}

function Where({ where }: { where: string }) {
  return <code class="sx-rows-where sx-cut sx-muted" title={where}>{where && `WHERE ${where}`}</code>;
}

/** Where the rows can be carried to. */
function Carry({ store, model }: { store: Store; model: RowsModel }) {
  const answer = model.answer.value;
  const open = (): void => {
    store.statement.value = statementOf(store.table.peek(), answer?.where ?? "", store.query.peek().sorts);
    store.tab.value = "sql";
  };
  return (
    <div class="sx-rows-carry">
      <Button look="quiet" disabled={answer === null} onClick={open}>Open in SQL</Button>
      <Copy text={answer?.scan ?? ""} label="Copy as Python" look="quiet" />
      {store.start.canKeep && (
        <div class="sx-anchor">
          <PopoverButton
            class="sx-button sx-button-quiet" label="Save as DataFrame" disabled={answer === null}
            panel="sx-rows-keep" face="Save as DataFrame…"
          >
            {() => <KeepForm store={store} />}
          </PopoverButton>
        </div>
      )}
    </div>
  );
}

function KeepForm({ store }: { store: Store }) {
  const variable = useSignal("df");
  const kept = useSignal<Loaded<Requests["keep"]["answer"]>>(NOTHING);
  const { value, loading, failure } = kept.value;
  const onSubmit = async (event: Event): Promise<void> => {
    event.preventDefault();
    kept.value = NOTHING;
    const asked = { table: store.table.value, version: store.version.value, query: store.query.value };
    const answer = await store.load(kept, "keep", { ...asked, variable: variable.value.trim() });
    if (answer) store.footer.value = { ...store.footer.value, line: answer.line };
  };
  return (
    <form onSubmit={(event) => void onSubmit(event)}>
      <label>
        <span>Variable</span>
        <input
          class="sx-field" type="text" spellcheck={false} autocomplete="off" required pattern="[A-Za-z_]\w*"
          title="The name of a Python variable" value={variable.value}
          onInput={(event) => (variable.value = event.currentTarget.value)}
        />
      </label>
      <Button look="primary" type="submit" disabled={loading}>Save</Button>
      {failure && <Failure failure={failure} />}
      <p class="sx-rows-kept sx-muted" role="status">{value?.sentence ?? `${countOf(store)} as a pandas DataFrame`}</p>
    </form>
  );
}

function countOf(store: Store): string {
  const rows = store.schema.value.value?.rows;
  if (isFiltered(store.query.value)) return "The rows that the filters leave";
  return rows === undefined ? "All rows" : `All ${plural(rows, "row")}`;
}

function NoRows({ store, model }: { store: Store; model: RowsModel }) {
  if (!isFiltered(store.query.value)) {
    const line = `%sleeper ingest ${store.table.value} FILE`;
    const action = (
      <>
        <code class="sx-command">{line}</code>
        <Copy text={line} />
      </>
    );
    return (
      <Empty title={`${store.table.value} has no rows up to this snapshot`} action={action}>
        Load a file or a DataFrame: run this line in a cell.
      </Empty>
    );
  }
  const clear = (): void => model.setQuery({ ...NO_QUERY, sorts: store.query.peek().sorts });
  return (
    <Empty title="No row meets these filters" action={<Button onClick={clear}>Clear filters</Button>}>
      Remove one of them, or choose another version.
    </Empty>
  );
}
