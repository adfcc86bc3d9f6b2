/** The Schema tab: columns, keys, comments and properties at the version. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes, count, percent, plural } from "./format";
import { Icon } from "./icons";
import { MiniBars } from "./mini_bars";
import type { Column, Header, HeadersAnswer, SchemaAnswer } from "./protocol";
import "./schema.css";
import { Button, Empty, Failure, Skeleton } from "./states";
import { type Loaded, NO_QUERY, NOTHING, type Store } from "./store";

const BATCH = 40; // columns whose values are read at once
const SEARCHED = 12; // from so many columns on there is a search

export function SchemaTab({ store }: { store: Store }) {
  const { value, loading, failure } = store.schema.value;
  useEffect(() => {
    if (value) store.footer.value = { line: value.line, source: "", seconds: null };
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
  const hasDefaults = schema.columns.some((each) => each.default !== null);
  const hasComments = schema.columns.some((each) => each.comment !== "");
  return (
    <>
      <div class="sx-schema-top">
        <Totals schema={schema} />
        <span class="sx-schema-space" />
        {schema.columns.length >= SEARCHED && (
          <input
            class="sx-schema-search"
            type="search"
            aria-label="Search columns"
            placeholder="Search columns"
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
          />
        )}
        <ValuesButton values={values} />
      </div>
      {schema.comment && <p class="sx-schema-comment">{schema.comment}</p>}
      {values.failure && <Failure failure={values.failure} onRetry={values.show} />}
      {columns.length === 0 ? (
        <Empty title="No column has this text" icon="search" />
      ) : (
        <div class="sx-schema-scroll">
          <table class="sx-schema-table">
            <thead>
              <tr>
                <th scope="col">Column</th>
                <th scope="col">Type</th>
                {values.shown && <th scope="col">Values</th>}
                <th scope="col">NULL</th>
                {hasDefaults && <th scope="col">Default</th>}
                {hasComments && <th scope="col">Comment</th>}
              </tr>
            </thead>
            <tbody>
              {columns.map((column) => (
                <ColumnRow
                  key={column.name}
                  column={column}
                  values={values}
                  hasDefaults={hasDefaults}
                  hasComments={hasComments}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Properties schema={schema} />
    </>
  );
}

function Totals({ schema }: { schema: SchemaAnswer }) {
  const facts: [string, string][] = [
    ["Columns", count(schema.columns.length)],
    ["Rows", count(schema.rows)],
    ["Size", bytes(schema.bytes)],
    ["Files", count(schema.files)],
    ["Partitions", count(schema.partitions)],
  ];
  return (
    <dl class="sx-totals">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt class="sx-muted">{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface Values {
  shown: boolean;
  loading: boolean;
  unread: string;
  failure: Loaded<HeadersAnswer>["failure"];
  header(name: string): Header | null;
  show(): void;
  hide(): void;
  readAll(): void;
  seen(name: string): void;
}

/** Bars of the columns that are seen, asked for in batches once a user wants them. */
function useValues(store: Store, schema: SchemaAnswer): Values {
  const shown = useSignal(false);
  const all = useSignal(false);
  const known = useSignal<Record<string, Header>>({});
  const state = useSignal<Loaded<HeadersAnswer>>(NOTHING);
  const wanted = useRef(new Set<string>());
  const ask = async (): Promise<void> => {
    const columns = [...wanted.current].filter((each) => !(each in known.peek())).slice(0, BATCH);
    if (columns.length === 0 || state.peek().loading) return;
    const args = { table: store.table.peek(), version: schema.version, query: NO_QUERY, columns, all: all.peek() };
    const answer = await store.load(state, "headers", args, { topic: "headers of the schema" });
    if (answer === null || answer.unread) return;
    known.value = { ...known.peek(), ...answer.headers };
    const isShort = columns.some((each) => !(each in answer.headers));
    if (!isShort) await ask();
  };
  useEffect(() => {
    known.value = {};
    state.value = NOTHING;
    if (shown.peek()) void ask();
    return () => store.kernel.cancel("headers of the schema");
  }, [schema]);
  const { value, loading, failure } = state.value;
  return {
    shown: shown.value,
    loading,
    failure,
    unread: value?.unread ?? "",
    header: (name) => known.value[name] ?? null,
    show: () => {
      shown.value = true;
      for (const each of schema.columns.slice(0, BATCH)) wanted.current.add(each.name);
      void ask();
    },
    hide: () => (shown.value = false),
    readAll: () => {
      all.value = true;
      void ask();
    },
    seen: (name) => {
      if (wanted.current.has(name)) return;
      wanted.current.add(name);
      if (shown.peek()) void ask();
    },
  };
}

function ValuesButton({ values }: { values: Values }) {
  if (values.shown && values.unread) return <Button onClick={values.readAll}>Read {values.unread}</Button>;
  return (
    <Button aria-pressed={values.shown} onClick={values.shown ? values.hide : values.show}>
      {values.shown ? "Hide values" : "Show values"}
    </Button>
  );
}

interface ColumnRowParts {
  column: Column;
  values: Values;
  hasDefaults: boolean;
  hasComments: boolean;
}

const ROLES: Record<Column["role"], string> = { "row key": "Row key", "sort key": "Sort key", "": "" };

function ColumnRow({ column, values, hasDefaults, hasComments }: ColumnRowParts) {
  const { name, role } = column;
  const place = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    if (!values.shown) return;
    const observer = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && values.seen(name));
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, [values.shown, name]);
  return (
    <tr ref={place}>
      <th scope="row">
        <span class="sx-schema-name">
          <span class={`sx-schema-key${role === "row key" ? " sx-schema-rowkey" : ""}`} title={ROLES[role]}>
            {role !== "" && <Icon name={role === "row key" ? "key" : "sort"} />}
          </span>
          <span class="sx-schema-word">{name}</span>
          {role !== "" && <span class="sx-muted sx-schema-role">{ROLES[role]}</span>}
        </span>
      </th>
      <td>
        <code class="sx-schema-type">{column.type}</code>
      </td>
      {values.shown && (
        <td class="sx-schema-values">
          <ValuesOf name={name} header={values.header(name)} unread={values.unread !== "" || values.failure !== null} />
        </td>
      )}
      <td class="sx-muted">{column.nullable ? "Allowed" : "Never"}</td>
      {hasDefaults && <td>{column.default !== null && <code>{column.default}</code>}</td>}
      {hasComments && <td class="sx-schema-text">{column.comment}</td>}
    </tr>
  );
}

function ValuesOf({ name, header, unread }: { name: string; header: Header | null; unread: boolean }) {
  if (header === null) return unread ? null : <Skeleton height="32px" />;
  const bars = header.bars.map((label, index) => ({ label, value: header.of[index] ?? 0 }));
  const distinct = header.distinct === null ? "" : `${header.exact ? "" : "about "}${plural(header.distinct, "value")}`;
  const nulls = header.nulls > 0 ? `${percent(header.nulls, header.rows)} NULL` : "";
  return (
    <>
      {bars.length > 0 && <MiniBars label={`Values of ${name}`} bars={bars} height={28} />}
      <span class="sx-muted sx-schema-facts">{[distinct, nulls].filter(Boolean).join(" · ")}</span>
    </>
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
      {properties.length > 0 && (
        <dl class="sx-properties">
          {properties.map(([name, value]) => (
            <div key={name}>
              <dt>
                <code>{name}</code>
              </dt>
              <dd>
                <code>{value}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </details>
  );
}
