/** What a grid shows and asks for. Rows of a version, answers of SQL and changed rows are sources of the same grid. */
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { Cell, Header, Kind, Sort, Tree } from "../protocol";
import type { ColumnLayout } from "./columns";

export interface GridColumn {
  name: string;
  type: string;
  kind: Kind;
  role?: "row key" | "sort key" | ""; // keys are first and pinned
  comment?: string;
}

/** How a row differs, in a grid of changes: a sign before it, and what the cells of a changed row were. */
export interface RowMark {
  kind: "added" | "removed" | "changed";
  before?: Cell[]; // in the order of the block's columns
  differs?: boolean[];
}

/** Some rows that follow one another, with the columns that were asked for. */
export interface Block {
  columns: string[];
  rows: Cell[][];
  marks?: RowMark[];
  total: number | null; // null: unknown
  last: boolean; // whether no row follows
}

export interface BlockRequest {
  first: number;
  count: number;
  columns: string[];
  slot: number; // 0 or 1: a newer request of a slot takes the place of the older; a source makes a topic of it
}

export interface GridSource {
  key: string; // another key: other rows; the grid drops what it read
  place?: string; // another place: the grid scrolls to the top; the key unless given
  columns: GridColumn[];
  total: number | null; // as far as it is known before the first block
  marked?: boolean; // whether rows have marks: room for a sign before each
  fetch(asked: BlockRequest): Promise<Block>; // rejected with `Superseded` or `RequestError`
  value?(row: number, column: string): Promise<Tree>; // the whole of a nested or cut value
}

/** The bars and texts in the headers, and what a user does with them. Without it a header has name and type only. */
export interface GridHeaders {
  header(column: string): Header | null; // reads a signal; null: not read yet
  chosen(column: string): [number, number] | null; // the bars that are chosen, both ends included
  failure: string; // why there are no headers; empty for none
  unread: string; // "1.2 GiB to read" where nobody asked for it yet; empty when they are read
  read(): void; // read them all the same
  retry(): void; // ask again for what failed
  needed(columns: string[]): void; // the columns that are seen: their headers are wanted
  begin(column: string): void; // a brush begins: counts for each of its bars are asked for once
  move(column: string, bars: [number, number]): void; // nothing is asked
  apply(column: string, bars: [number, number] | null): void; // null: no bar of the column is chosen any more
  cancel(): void; // the brush ends without a change
  typed(column: string): string; // the filter that was typed; empty for none
  type(column: string, text: string): void;
}

export interface GridSorts {
  sorts: Sort[];
  sort(column: string, also: boolean): void; // ascending, then descending, then no more; `also` keeps the others
  order(column: string, descending: boolean | null): void; // by this column alone; null: not by it
}

export interface GridProps {
  source: GridSource;
  label: string; // the accessible name
  headers?: GridHeaders;
  sorting?: GridSorts;
  layout?: Signal<ColumnLayout>; // the grid has its own unless given
  empty?: ComponentChildren; // what is shown when there are no rows
  onShown?: (first: number, end: number, total: number | null) => void; // the rows seen, from 0, without `end`
}
