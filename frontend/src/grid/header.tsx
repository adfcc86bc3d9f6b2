/** The header of a column: name and order, type, bars, and how many values are NULL or different. */
import { drag } from "../elements";
import { percent, plural } from "../format";
import { Icon } from "../icons";
import type { Header, Sort } from "../protocol";
import { HeaderBars } from "./bars";
import { isNumber } from "./cell_text";
import type { GridColumn, GridHeaders, GridSorts } from "./source";

export const PLAIN_HEAD = 46;
export const FULL_HEAD = 84;
const PADDING = 16;
const KEY_STEP = 16; // px of a move with the keyboard

export interface HeaderParts {
  column: GridColumn;
  index: number; // from 1
  width: number;
  left: number | null; // of a column that stays in place; null: it moves with the others
  isLastPinned: boolean;
  isCurrent: boolean; // whether the Tab key comes to it
  headers: GridHeaders | undefined;
  sorting: GridSorts | undefined;
  onMenu: (column: GridColumn, from: HTMLElement) => void;
  onWidth: (name: string, width: number | null) => void; // null: by its content
  onMove: (to: "left" | "right" | "down" | "home" | "end") => void;
}

export function HeaderCell(parts: HeaderParts) {
  const { column, index, width, left, headers, sorting } = parts;
  const at = sorting?.sorts.findIndex((each) => each.column === column.name) ?? -1;
  const sort = at < 0 ? undefined : sorting?.sorts[at];
  const classes = ["sx-head-cell", left !== null && "sx-pinned", parts.isLastPinned && "sx-pinned-last"];
  if (isNumber(column.kind)) classes.push("sx-head-number");
  return (
    <div
      class={classes.filter(Boolean).join(" ")} role="columnheader" aria-label={column.name} aria-colindex={index}
      {...(sort ? { "aria-sort": sort.descending ? "descending" : "ascending" } : {})}
      style={{ width: `${width}px`, ...(left === null ? {} : { left: `${left}px` }) }}
    >
      <HeaderTitle {...parts} sort={sort} order={(sorting?.sorts.length ?? 0) > 1 ? at + 1 : 0} />
      <div class="sx-head-type">
        <span class="sx-cut" title={typeTitle(column, headers?.header(column.name))}>{column.type}</span>
        {headers !== undefined && <Nulls header={headers.header(column.name)} />}
        {headers !== undefined && <Distinct header={headers.header(column.name)} />}
      </div>
      {headers !== undefined && <HeaderSummary {...parts} headers={headers} />}
      <Handle {...parts} />
    </div>
  );
}

function typeTitle({ type, role, comment }: GridColumn, header: Header | null | undefined): string {
  const values = header && header.distinct !== null && distinctText(header);
  return [`${type}${role ? ` · ${role}` : ""}`, values, comment].filter(Boolean).join("\n");
}

function HeaderTitle(parts: HeaderParts & { sort: Sort | undefined; order: number }) {
  const { column, sorting, sort, order, isCurrent } = parts;
  const stop = isCurrent ? 0 : -1;
  const onKeyDown = (event: KeyboardEvent): void => {
    const moves = { ArrowLeft: "left", ArrowRight: "right", ArrowDown: "down", Home: "home", End: "end" } as const;
    const move = moves[event.key as keyof typeof moves];
    if (event.altKey && (move === "left" || move === "right")) {
      parts.onWidth(column.name, parts.width + (move === "left" ? -KEY_STEP : KEY_STEP));
    } else if (event.altKey && move === "down") {
      parts.onMenu(column, event.currentTarget as HTMLElement);
    } else if (move !== undefined && !event.altKey && !event.ctrlKey && !event.metaKey) {
      parts.onMove(move);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const name = (
    <>
      {column.role ? <Icon name={column.role === "row key" ? "key" : "sort"} /> : null}
      <span class="sx-head-text sx-cut">{column.name}</span>
      {order > 0 && <span class="sx-head-order">{order}</span>}
    </>
  );
  return (
    <div class="sx-head-title">
      <button
        type="button" class="sx-head-name" tabindex={stop} data-column={column.name}
        title={[column.name, column.comment].filter(Boolean).join("\n")}
        aria-label={sorting ? `Sort by ${column.name}` : column.name} aria-keyshortcuts="Alt+ArrowDown"
        onClick={(event) => sorting?.sort(column.name, event.shiftKey)} onKeyDown={onKeyDown}
      >
        {name}
      </button>
      <button
        type="button" class={`sx-head-menu${sort ? " sx-head-sorted" : ""}`} tabindex={stop}
        aria-label={`Menu of ${column.name}`} aria-haspopup="dialog"
        onClick={(event) => parts.onMenu(column, event.currentTarget)}
      >
        <Icon name={sort ? (sort.descending ? "down" : "up") : parts.headers?.typed(column.name) ? "filter" : "more"} />
      </button>
    </div>
  );
}

function HeaderSummary({ column, width, isCurrent, headers }: HeaderParts & { headers: GridHeaders }) {
  const header = headers.header(column.name);
  if (header === null) {
    return <div class="sx-head-summary">{headers.unread === "" && <div class="sx-bars-wait" />}</div>;
  }
  if (!header.ranges && header.bars.length === 1) return <OneValue header={header} />;
  return (
    <div class="sx-head-summary">
      {header.bars.length > 0 ? (
        <HeaderBars
          name={column.name} header={header} headers={headers} width={width - PADDING} isCurrent={isCurrent}
        />
      ) : <div class="sx-bars-none" />}
    </div>
  );
}

/** The only value and its share: one bar would be a block that says less. */
function OneValue({ header }: { header: Header }) {
  const [value, rows] = [header.bars[0] || "''", header.counts[0] ?? 0];
  const share = rows > 0 && rows === header.rows ? "all rows" : percent(rows, header.rows);
  return (
    <div class="sx-head-summary sx-head-one" title={`${value}, ${share}`}>
      <span class="sx-cut">{value}</span>, {share}
    </div>
  );
}

/** The share of NULL; the menu of the column leaves only these rows. */
function Nulls({ header }: { header: Header | null }) {
  if (header === null || header.nulls === 0) return null;
  const share = `${percent(header.nulls, header.rows)} NULL`;
  return <span class="sx-head-nulls sx-cut" title={`${plural(header.nulls, "row")} without a value`}>{share}</span>;
}

/** How many values; where the line has no room for it, it is in the tip of the type alone. */
function Distinct({ header }: { header: Header | null }) {
  return header && header.distinct !== null && header.rows > 0 ? <span>{distinctText(header)}</span> : null;
}

function distinctText({ distinct, exact }: Header): string {
  return `${exact ? "" : "≈ "}${plural(distinct ?? 0, "value")}`;
}

/** The edge of a column, which is dragged, or moved with the arrow keys; a double click fits it to the content. */
function Handle({ column, width, isCurrent, onWidth }: HeaderParts) {
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "ArrowLeft") onWidth(column.name, width - KEY_STEP);
    else if (event.key === "ArrowRight") onWidth(column.name, width + KEY_STEP);
    else if (event.key === "Enter") onWidth(column.name, null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="sx-head-handle" role="separator" tabindex={isCurrent ? 0 : -1} aria-orientation="vertical"
      aria-label={`Width of ${column.name}`} aria-valuenow={width} aria-valuemin={56} aria-valuemax={800}
      onPointerDown={(event) => drag(event, (x) => onWidth(column.name, width + x))}
      onDblClick={() => onWidth(column.name, null)} onKeyDown={onKeyDown}
    />
  );
}
