/** The Schema tab: columns, keys, comments and properties at the version. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes, count, percent, plural } from "./format";
import { Icon } from "./icons";
import { useListWindow } from "./list_window";
import { MiniBars } from "./mini_bars";
import type { Column, Header, HeadersAnswer, SchemaAnswer } from "./protocol";
import "./schema.css";
import { Button, Empty, Facts, Failure, SearchField, Skeleton } from "./states";
import { type Loaded, NO_QUERY, NOTHING, type Store } from "./store";

const SEARCHED = 12; // from so many columns on there is a search
const ALL = 200; // of more columns only those that are seen are drawn
const ROW = 37; // pixels, with the hairline
const TOPIC = "headers of the schema";
const BATCH = 40; // columns whose values are read at once
const SETTLE = 100; // milliseconds without scrolling before values are asked for

export function SchemaTab({ store }: { store: Store }) {
  const { value, loading, failure } = store.schema.value;
  useEffect(() => {
    if (value) store.say(value.line);
  }, [value]);
  return (
    <div class="sx-schema" aria-busy={loading}>
      {failure && <Failure failure={failure} />}
      {value === null && !failure && <Skeleton rows={12} height="20px" label="The schema is read" />}
      {value !== null && !failure && <Columns store={store} schema={value} />}
    </div>
  );
}

function Columns({ store, schema }: { store: Store; schema: SchemaAnswer }) {
  const [search, setSearch] = useState("");
  const values = useValues(store, schema);
  const word = search.trim().toLowerCase();
  const columns = schema.columns.filter((each) =>
    `${each.name} ${each.type} ${each.comment}`.toLowerCase().includes(word),
  );
  const totals: [string, string][] = [
    ["Columns", count(schema.columns.length)],
    ["Rows", count(schema.rows)],
    ["Size", bytes(schema.bytes)],
    ["Files", count(schema.files)],
    ["Partitions", count(schema.partitions)],
  ];
  return (
    <>
      <div class="sx-schema-top">
        <Facts class="sx-totals" facts={totals} />
        <span class="sx-space" />
        {schema.columns.length >= SEARCHED && <SearchField label="Search columns" value={search} onText={setSearch} />}
        {values.unread && <Button onClick={values.readAll}>Read values, {values.unread}</Button>}
      </div>
      {schema.comment && <p class="sx-schema-comment">{schema.comment}</p>}
      {values.failure && <Failure failure={values.failure} onRetry={values.ask} />}
      {columns.length === 0 ? <Empty title="No column has this text" icon="search" /> : (
        <ColumnTable schema={schema} columns={columns} values={values} />
      )}
    </>
  );
}

interface ColumnTableParts {
  schema: SchemaAnswer;
  columns: Column[]; // those that were found
  values: Values;
}

function ColumnTable({ schema, columns, values }: ColumnTableParts) {
  const seen = useListWindow(columns.length, ROW);
  const isWhole = columns.length <= ALL;
  const [first, end] = isWhole ? [0, columns.length] : [seen.first, seen.end];
  const shown = columns.slice(first, end);
  const has = {
    defaults: schema.columns.some((each) => each.default !== null),
    comments: schema.columns.some((each) => each.comment !== ""),
  };
  const span = 4 + Number(has.defaults) + Number(has.comments);
  const names = shown.map((each) => each.name);
  useEffect(() => {
    const timer = setTimeout(() => values.need(names), SETTLE);
    return () => clearTimeout(timer);
  }, [schema, names.join("\n")]);
  return (
    <div ref={seen.box} class="sx-schema-scroll" onScroll={seen.onScroll}>
      <table class={`sx-schema-table${isWhole ? "" : " sx-schema-many"}`} aria-rowcount={columns.length + 1}>
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">Type</th>
            <th scope="col">Values</th>
            <th scope="col" class="sx-number">NULL</th>
            {has.defaults && <th scope="col">Default</th>}
            {has.comments && <th scope="col">Comment</th>}
          </tr>
        </thead>
        <tbody>
          <Spacer rows={first} span={span} />
          {shown.map((column) => <ColumnRow key={column.name} column={column} values={values} has={has} />)}
          <Spacer rows={columns.length - end} span={span} />
        </tbody>
      </table>
      <Properties schema={schema} />
    </div>
  );
}

function Spacer({ rows, span }: { rows: number; span: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true"><td class="sx-schema-spacer" colSpan={span} style={{ height: `${rows * ROW}px` }} /></tr>
  );
}

interface Values {
  unread: string;
  failure: Loaded<HeadersAnswer>["failure"];
  header(name: string): Header | null;
  ask(): void;
  readAll(): void;
  need(names: string[]): void; // those that are seen
}

/** Bars of the columns that are seen, asked for in batches; what takes long to read, once a user wants it. */
function useValues(store: Store, schema: SchemaAnswer): Values {
  const all = useSignal(false);
  const known = useSignal<Record<string, Header>>({});
  const state = useSignal<Loaded<HeadersAnswer>>(NOTHING);
  const wanted = useRef<string[]>([]);
  const ask = async (): Promise<void> => {
    const columns = wanted.current.filter((each) => !(each in known.peek())).slice(0, BATCH);
    if (columns.length === 0) return;
    const args = { table: store.table.peek(), version: schema.version, query: NO_QUERY, columns, all: all.peek() };
    const answer = await store.load(state, "headers", args, { topic: TOPIC });
    if (answer === null || answer.unread || answer.version !== schema.version) return;
    known.value = { ...known.peek(), ...answer.headers };
    if (columns.every((each) => each in answer.headers)) await ask();
  };
  useEffect(() => {
    known.value = {};
    state.value = NOTHING;
    return () => store.kernel.cancel(TOPIC);
  }, [schema]);
  const { value, failure } = state.value;
  return {
    failure,
    unread: value?.unread ?? "",
    header: (name) => known.value[name] ?? null,
    ask: () => void ask(),
    readAll: () => {
      all.value = true;
      void ask();
    },
    need: (names) => {
      wanted.current = names;
      void ask();
    },
  };
}

interface ColumnRowParts {
  column: Column;
  values: Values;
  has: { defaults: boolean; comments: boolean };
}

const ROLES: Record<Column["role"], string> = { "row key": "Row key", "sort key": "Sort key", "": "" };

function ColumnRow({ column, values, has }: ColumnRowParts) {
  const { name, role } = column;
  const header = values.header(name);
  const nulls = header && header.rows > 0 ? percent(header.nulls, header.rows) : "Allowed";
  return (
    <tr>
      <th scope="row">
        <span class="sx-schema-name">
          <span class={`sx-schema-key${role === "row key" ? " sx-schema-rowkey" : ""}`} title={ROLES[role]}>
            {role !== "" && <Icon name={role === "row key" ? "key" : "sort"} />}
          </span>
          <span class="sx-schema-word sx-cut" title={name}>{name}</span>
          {role !== "" && <span class="sx-muted sx-schema-role">{ROLES[role]}</span>}
        </span>
      </th>
      <td>
        <code class="sx-schema-type" title={column.type}>{column.type.replace(/\?$/, "")}</code>
      </td>
      <td class="sx-schema-values">
        <ValuesOf name={name} header={header} unread={values.unread !== "" || values.failure !== null} />
      </td>
      <td class="sx-muted sx-number">{column.nullable ? nulls : "Never"}</td>
      {has.defaults && <td>{column.default !== null && <code>{column.default}</code>}</td>}
      {has.comments && <td class="sx-schema-text" title={column.comment}>{column.comment}</td>}
    </tr>
  );
}

function ValuesOf({ name, header, unread }: { name: string; header: Header | null; unread: boolean }) {
  if (header === null) return unread ? null : <Skeleton height="26px" />;
  const bars = header.bars.map((label, index) => ({ label, value: header.of[index] ?? 0 }));
  const distinct = header.distinct === null ? "" : `${header.exact ? "" : "≈ "}${plural(header.distinct, "value")}`;
  const only = header.ranges || bars.length !== 1 ? null : bars[0]!.label || "''";
  return (
    <div class="sx-schema-bars">
      {only !== null ? <span class="sx-cut" title={only}>{only}</span> : (
        <div>{bars.length > 0 && <MiniBars label={`Values of ${name}`} bars={bars} height={26} />}</div>
      )}
      <span class="sx-muted sx-schema-facts">{distinct}</span>
    </div>
  );
}

function Properties({ schema }: { schema: SchemaAnswer }) {
  const { properties } = schema;
  return (
    <details class="sx-fold sx-schema-properties">
      <summary>
        <strong>Properties</strong>
        <span class="sx-muted">
          {properties.length === 0
            ? "All have their defaults"
            : `${count(properties.length)} differ from their defaults`}
        </span>
      </summary>
      {properties.length > 0 && <Facts class="sx-properties" facts={properties} />}
    </details>
  );
}
