/** Filters of rows: queries with and without one, what a brush counts, and how a filter reads. Pure. */
import type { CubeAnswer, Filter, Header, Query, Sort } from "./protocol";

export type Bars = [number, number]; // both ends included

/** Whether a filter is of bars of a header, and not typed or the keys of a partition. */
function isOfBars(filter: Filter): filter is Extract<Filter, { bars: Bars } | { value: number }> {
  return "bars" in filter || "value" in filter;
}

/** The query without the bars that are chosen in a column; its other filters stay. */
export function withoutBars(query: Query, column: string): Query {
  return { ...query, filters: query.filters.filter((each) => each.column !== column || !isOfBars(each)) };
}

export function withBars(query: Query, column: string, bars: Bars | null, header: Header | null): Query {
  const rest = withoutBars(query, column);
  if (bars === null) return rest;
  const [first, last] = ordered(bars);
  const isValue = header !== null && !header.ranges && first === last;
  const filter: Filter = isValue ? { column, value: first } : { column, bars: [first, last] };
  return { ...rest, filters: [...rest.filters, filter] };
}

/** The query with another typed filter of a column; none for an empty text. */
export function withText(query: Query, column: string, text: string): Query {
  const filters = query.filters.filter((each) => each.column !== column || !("text" in each));
  const typed = text.trim();
  return { ...query, filters: typed ? [...filters, { column, text: typed }] : filters };
}

export function withoutFilter(query: Query, filter: Filter): Query {
  return { ...query, filters: query.filters.filter((each) => each !== filter) };
}

export function barsOf(query: Query, column: string): Bars | null {
  const found = query.filters.find((each) => each.column === column && isOfBars(each));
  if (found === undefined || !isOfBars(found)) return null;
  return "bars" in found ? ordered(found.bars) : [found.value, found.value];
}

export function textOf(query: Query, column: string): string {
  const found = query.filters.find((each) => each.column === column && "text" in each);
  return found !== undefined && "text" in found ? found.text : "";
}

export function isFiltered(query: Query): boolean {
  return query.filters.length > 0 || query.search.trim() !== "";
}

/** Ascending, then descending, then no more; `also` keeps the other columns. */
export function sortedBy(sorts: Sort[], column: string, also: boolean): Sort[] {
  const now = sorts.find((each) => each.column === column);
  const others = also ? sorts.filter((each) => each.column !== column) : [];
  if (now === undefined) return [...others, { column, descending: false }];
  if (now.descending) return others;
  const turned = { column, descending: true };
  return also ? sorts.map((each) => (each === now ? turned : each)) : [turned];
}

export function ordered([a, b]: Bars): Bars {
  return a <= b ? [a, b] : [b, a];
}

export function cubeRows(cube: CubeAnswer, bars: Bars): number {
  return sum(cube.rows, bars);
}

/** What the headers show while bars are brushed: the brushed column its own bars, the others what the cube has. */
export function brushed(headers: Record<string, Header>, cube: CubeAnswer, bars: Bars): Record<string, Header> {
  const span = ordered(bars);
  const rows = sum(cube.rows, span);
  const shown: Record<string, Header> = {};
  for (const [name, header] of Object.entries(headers)) {
    if (name === cube.column) {
      const counts = cube.rows.map((count, i) => (i >= span[0] && i <= span[1] ? count : 0));
      shown[name] = { ...header, counts, nulls: 0, rows };
    } else {
      const of = cube.columns[name];
      shown[name] = of === undefined ? header : { ...header, ...sums(of, span), rows, distinct: null };
    }
  }
  return shown;
}

function sums(of: { counts: number[][]; nulls: number[] }, span: Bars): { counts: number[]; nulls: number } {
  const bars = of.counts[span[0]]?.length ?? 0;
  const counts = new Array<number>(bars).fill(0);
  for (let bar = span[0]; bar <= span[1]; bar++) {
    of.counts[bar]?.forEach((count, i) => {
      counts[i] = (counts[i] as number) + count;
    });
  }
  return { counts, nulls: sum(of.nulls, span) };
}

function sum(numbers: number[], [first, last]: Bars): number {
  let all = 0;
  for (let i = first; i <= last; i++) all += numbers[i] ?? 0;
  return all;
}

const RANGE = /^(.*?) < … ≤ (.*)$/s;

/** What neighbouring bars stand for: `> 10 and ≤ 30`, `≤ 10`, `AA, DL, UA`. */
export function barsText(header: Header, bars: Bars): string {
  const [first, last] = ordered(bars);
  const labels = header.bars.slice(first, last + 1);
  if (!header.ranges) {
    const texts = labels.map(quietText);
    return texts.length <= 3 ? texts.join(", ") : `${texts.slice(0, 2).join(", ")} and ${texts.length - 2} more`;
  }
  const [low, high] = [labels[0] ?? "", labels.at(-1) ?? ""];
  const [begin, end] = [RANGE.exec(low)?.[1], RANGE.exec(high)?.[2]];
  if (end === undefined) return low === high ? low : `${low} to ${high}`;
  return begin === undefined ? `≤ ${end}` : `> ${begin} and ≤ ${end}`;
}

/** A value that is empty is written as SQL writes it. */
function quietText(label: string): string {
  return label === "" ? "''" : label;
}

/** The text of a chip: the column and what is asked of it. `header` is that of the column, if it is known. */
export function chipText(filter: Filter, header: Header | null): { column: string; condition: string } {
  const { column } = filter;
  if ("text" in filter) return { column, condition: typedText(filter.text) };
  if ("low" in filter) return { column, condition: keysText(filter.low, filter.high) };
  const bars: Bars = "bars" in filter ? filter.bars : [filter.value, filter.value];
  if (header === null) return { column, condition: "…" };
  const text = barsText(header, bars);
  return { column, condition: header.ranges || bars[0] !== bars[1] ? text : `= ${text}` };
}

/** The keys of a partition, as the Partitions tab writes them. */
function keysText(low: string | null, high: string | null): string {
  return `${low === null ? "(-∞" : `[${low}`}, ${high ?? "∞"})`;
}

function typedText(text: string): string {
  const word = text.trim().toLowerCase();
  if (word === "null") return "is NULL";
  if (word === "not null") return "is not NULL";
  return /^([<>=]|.*\.\.)/.test(text) ? text : `has “${text}”`;
}

/** Where a move with the keyboard leaves chosen bars; `anchor` stays when the choice is extended. */
export function movedBars(bars: Bars, anchor: number, key: string, extend: boolean, count: number): [Bars, number] {
  const head = anchor === bars[0] ? bars[1] : bars[0];
  const to = Math.min(count - 1, Math.max(0, target(key, head, count)));
  return extend ? [ordered([anchor, to]), anchor] : [[to, to], to];
}

function target(key: string, head: number, count: number): number {
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return head + (key === "ArrowLeft" || key === "ArrowDown" ? -1 : 1);
}

/** The statement that finds the same rows. */
export function statementOf(table: string, where: string, sorts: Sort[]): string {
  const lines = ["SELECT *", `FROM ${named(table)}`];
  if (where) lines.push(`WHERE ${where}`);
  if (sorts.length > 0) {
    lines.push(`ORDER BY ${sorts.map((each) => `${named(each.column)}${each.descending ? " DESC" : ""}`).join(", ")}`);
  }
  return `${lines.join("\n")}\nLIMIT 1000`;
}

function named(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
