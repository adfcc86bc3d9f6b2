/** The Schema tab: columns, keys, comments and properties at the version. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { bytes, count } from "./format";
import { Icon } from "./icons";
import { useSize } from "./measured";
import type { Column, SchemaAnswer } from "./protocol";
import "./schema.css";
import { Empty, Facts, Failure, SearchField, Skeleton } from "./states";
import type { Store } from "./store";

const SEARCHED = 12; // from so many columns on there is a search
const ALL = 200; // of more columns only those that are seen are drawn
const ROW = 37; // pixels, with the hairline

export function SchemaTab({ store }: { store: Store }) {
  const { value, loading, failure } = store.schema.value;
  useEffect(() => {
    if (value) store.say(value.line);
  }, [value]);
  return (
    <div class="sx-schema" aria-busy={loading}>
      {failure && <Failure failure={failure} />}
      {value === null && !failure && <Skeleton rows={12} height="20px" label="The schema is read" />}
      {value !== null && !failure && <Columns schema={value} />}
    </div>
  );
}

function Columns({ schema }: { schema: SchemaAnswer }) {
  const [search, setSearch] = useState("");
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
        <span class="sx-schema-space" />
        {schema.columns.length >= SEARCHED && (
          <SearchField label="Search columns" value={search} onText={setSearch} />
        )}
      </div>
      {schema.comment && <p class="sx-schema-comment">{schema.comment}</p>}
      {columns.length === 0 ? (
        <Empty title="No column has this text" icon="search" />
      ) : (
        <ColumnTable schema={schema} columns={columns} />
      )}
    </>
  );
}

/** The columns that were found. */
function ColumnTable({ schema, columns }: { schema: SchemaAnswer; columns: Column[] }) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const { height } = useSize(box);
  const isWhole = columns.length <= ALL;
  const first = isWhole ? 0 : Math.max(0, Math.floor(top.value / ROW) - 8);
  const end = isWhole ? columns.length : Math.min(columns.length, first + Math.ceil(height / ROW) + 16);
  const shown = columns.slice(first, end);
  const has = {
    defaults: schema.columns.some((each) => each.default !== null),
    comments: schema.columns.some((each) => each.comment !== ""),
  };
  const span = 3 + Number(has.defaults) + Number(has.comments);
  return (
    <div ref={box} class="sx-schema-scroll" onScroll={(event) => (top.value = event.currentTarget.scrollTop)}>
      <table class={`sx-schema-table${isWhole ? "" : " sx-schema-many"}`} aria-rowcount={columns.length + 1}>
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">Type</th>
            <th scope="col">NULL</th>
            {has.defaults && <th scope="col">Default</th>}
            {has.comments && <th scope="col">Comment</th>}
          </tr>
        </thead>
        <tbody>
          <Spacer rows={first} span={span} />
          {shown.map((column) => (
            <ColumnRow key={column.name} column={column} has={has} />
          ))}
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
    <tr aria-hidden="true">
      <td class="sx-schema-spacer" colSpan={span} style={{ height: `${rows * ROW}px` }} />
    </tr>
  );
}

interface ColumnRowParts {
  column: Column;
  has: { defaults: boolean; comments: boolean };
}

const ROLES: Record<Column["role"], string> = { "row key": "Row key", "sort key": "Sort key", "": "" };

function ColumnRow({ column, has }: ColumnRowParts) {
  const { name, role } = column;
  return (
    <tr>
      <th scope="row">
        <span class="sx-schema-name">
          <span class={`sx-schema-key${role === "row key" ? " sx-schema-rowkey" : ""}`} title={ROLES[role]}>
            {role !== "" && <Icon name={role === "row key" ? "key" : "sort"} />}
          </span>
          <span class="sx-schema-word sx-cut" title={name}>
            {name}
          </span>
          {role !== "" && <span class="sx-muted sx-schema-role">{ROLES[role]}</span>}
        </span>
      </th>
      <td>
        <code class="sx-schema-type" title={column.type}>
          {column.type}
        </code>
      </td>
      <td class="sx-muted">{column.nullable ? "Allowed" : "Never"}</td>
      {has.defaults && <td>{column.default !== null && <code>{column.default}</code>}</td>}
      {has.comments && (
        <td class="sx-schema-text" title={column.comment}>
          {column.comment}
        </td>
      )}
    </tr>
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
        <Facts class="sx-properties" facts={properties} />
      )}
    </details>
  );
}
