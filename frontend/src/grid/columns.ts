/** Which columns a grid shows, in which order and how wide. Pure. */
import type { Cell } from "../protocol";
import { fraction, grouped, isNumber } from "./cell_text";
import type { GridColumn } from "./source";

export interface ColumnLayout {
  hidden: string[];
  pinned: string[] | null; // null: the keys
  widths: Record<string, number>; // those that a user set, in px
}

export const OWN_LAYOUT: ColumnLayout = { hidden: [], pinned: null, widths: {} };
export const LEAST_WIDTH = 56;
export const MOST_WIDTH = 800;
export const CHUNK = 40; // columns of a block
const PADDING = 18; // of a cell, with its border
const MOST_OWN = 280; // a column takes no more by itself
const CHARACTER = 7.3; // px of a character of 13 px on average
const STRONG = 8.4; // px of a strong one
const MENU = 22; // px of the menu beside a name, without the padding
const GAP = 5; // characters for the space between a struck value and the one after it, and for wide letters in both
const DIGIT = 8.6; // digits are wider in some fonts, and a number that is cut is wrong

/** The columns in the order in which they are read and numbered: row keys, sort keys, the others. */
export function keysFirst<C extends { role?: GridColumn["role"] }>(columns: C[]): C[] {
  const of = (role: string): C[] => columns.filter((each) => (each.role ?? "") === role);
  return [...of("row key"), ...of("sort key"), ...of("")];
}

/** The names of the pinned columns, and then of the others; hidden ones are in neither. `columns` has keys first. */
export function shownColumns(columns: GridColumn[], layout: ColumnLayout): { pinned: string[]; others: string[] } {
  const hidden = new Set(layout.hidden);
  const pinned = pinnedNames(columns, layout).filter((name) => !hidden.has(name));
  const first = new Set(pinned);
  const others = columns.map(({ name }) => name).filter((name) => !hidden.has(name) && !first.has(name));
  return { pinned, others };
}

export function pinnedNames(columns: GridColumn[], layout: ColumnLayout): string[] {
  const known = new Set(columns.map(({ name }) => name));
  const chosen = layout.pinned ?? columns.filter(({ role }) => role).map(({ name }) => name);
  return chosen.filter((name) => known.has(name));
}

/** How many of the pinned columns stay in place when the window is narrow: they leave room for the others. */
export function stuckPins(widths: number[], view: number): number {
  let [sum, number] = [0, 0];
  for (const width of widths) {
    sum += width;
    if (sum > view * 0.6) break;
    number += 1;
  }
  return number;
}

export function withPin(columns: GridColumn[], layout: ColumnLayout, name: string, isPinned: boolean): ColumnLayout {
  const now = pinnedNames(columns, layout).filter((each) => each !== name);
  return { ...layout, pinned: isPinned ? [...now, name] : now };
}

export function withHidden(layout: ColumnLayout, names: string[], isHidden: boolean): ColumnLayout {
  const changed = new Set(names);
  const others = layout.hidden.filter((each) => !changed.has(each));
  return { ...layout, hidden: isHidden ? [...others, ...names] : others };
}

export function withWidth(layout: ColumnLayout, name: string, width: number): ColumnLayout {
  const fit = Math.round(Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, width)));
  return { ...layout, widths: { ...layout.widths, [name]: fit } };
}

/** The width that a column takes by itself: for its name, its bars, and some cells with what they were before. */
export function ownWidth(
  column: GridColumn,
  cells: Cell[],
  least: number,
  before: (Cell | undefined)[] = [],
): number {
  const title = (widthOf(column.name) + (column.role ? 2.5 : 0)) * STRONG + MENU; // with the mark of a key
  const nulls = least > 0 && column.type.endsWith("?") ? 11 : 0; // characters of the share of NULL beside the type
  const type = (Math.min(widthOf(column.type), 18) + nulls) * 6.6;
  const [of, unit] = isNumber(column.kind) ? [numberWidth, DIGIT] : [cellWidth, CHARACTER];
  const digits = fractions(column, cells); // as cells of a column of floats are aligned at the point
  const old = (cell: Cell | undefined): number => (cell === undefined ? 0 : of(cell) + GAP);
  const room = (cell: Cell, at: number): number => old(before[at]) + of(cell) + Math.max(0, digits - fraction(cell));
  const longest = cells.reduce((most: number, each, at) => Math.max(most, room(each, at)), 0);
  const content = cells.length > 0 ? longest * unit : USUAL[column.kind] ?? USUAL.string;
  const days = least > 0 && (column.kind === "date" || column.kind === "timestamp") ? 152 : 0; // the ends of its bars
  const width = Math.ceil(Math.max(title, type, content as number, days) + PADDING);
  return Math.min(MOST_OWN, Math.max(least, LEAST_WIDTH, width));
}

/** How many characters the longest fraction of floats has, with the point. */
export function fractions({ kind }: GridColumn, cells: Cell[]): number {
  return kind === "float" ? cells.reduce((most: number, each) => Math.max(most, fraction(each)), 0) : 0;
}

/** Before a cell is known. */
const USUAL: Partial<Record<GridColumn["kind"], number>> & { string: number } = {
  string: 110,
  timestamp: 150,
  nested: 240,
  binary: 160,
};

function numberWidth(cell: Cell): number {
  return typeof cell === "string" ? grouped(cell).length : cellWidth(cell);
}

function cellWidth(cell: Cell): number {
  if (cell === null) return 5;
  return typeof cell === "string" ? widthOf(cell) : 60;
}

/** The width of a text in characters of the Latin script; others are as wide as two. */
export function widthOf(text: string): number {
  let width = 0;
  for (const each of text.length > 60 ? text.slice(0, 60) : text) {
    width += (each.codePointAt(0) as number) >= 0x1100 ? 2 : 1;
  }
  return width;
}

/** Which chunks of columns (of all, keys first) some names are in. */
export function chunksOf(columns: GridColumn[], names: Iterable<string>): number[] {
  const place = new Map(columns.map(({ name }, i) => [name, i]));
  const chunks = new Set<number>();
  for (const name of names) {
    const at = place.get(name);
    if (at !== undefined) chunks.add(Math.floor(at / CHUNK));
  }
  return [...chunks].sort((a, b) => a - b);
}

export function namesOf(columns: GridColumn[], chunks: number[]): string[] {
  return chunks.flatMap((each) => columns.slice(each * CHUNK, (each + 1) * CHUNK).map(({ name }) => name));
}

/** The columns whose name has all words of a text in it, in any case of the letters. */
export function matching(columns: GridColumn[], text: string): GridColumn[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return columns.filter(({ name }) => words.every((each) => name.toLowerCase().includes(each)));
}
