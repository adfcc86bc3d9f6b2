/** What the front end asks of the kernel and what it gets back. `sleeper_nb/widgets/asked_widget.py` has the other side.
 *
 * A request is `{id, topic, do, …}`. The answer has the same `id` and exactly one of `ok`, `error`, `part` (a first part;
 * more follows) and `cancelled`. A newer request of a topic cancels the older one, in the page and in the kernel.
 * Every answer about rows, files or schemas names the version that it is of.
 */

export type Kind = "string" | "integer" | "float" | "decimal" | "boolean" | "date" | "timestamp" | "time" | "binary" | "nested";

/** A cell as the page shows it: null is NULL; text is exact (integers and decimals too). A long text is cut; `value` gets the rest. */
export type Cell = string | null | { cut: string; length: number };

export interface Column {
  name: string;
  type: string; // as `describe` writes it
  kind: Kind;
  role: "row key" | "sort key" | "";
  nullable: boolean;
  default: string | null;
  comment: string;
}

/** All versions that can be chosen, oldest first; one array a property, as there may be 10,000. */
export interface Versions {
  number: number[];
  committed: number[]; // milliseconds since 1970, UTC
  kind: string[]; // create, ingest, bulk_import, add_files, compact, delete, update, merge, overwrite, alter, split, rollback, …
  change: string[]; // "+28,135 rows"
  message: string[]; // what the user wrote; empty for none
  rows: number[];
  bytes: number[]; // 0 where only a savepoint holds the version
  savepoints: Record<string, string[]>; // names by number
}

export interface OpenTable {
  name: string;
  comment: string;
  versions: Versions;
  actions: boolean; // whether roll back and savepoint are offered
}

export interface TableDetails {
  name: string;
  rows: number;
  bytes: number;
  growth: number[]; // rows at up to 40 versions, oldest first
  due: string[]; // "compaction", "expiry", "garbage collection"; empty when nothing is
  problem: string; // why it cannot be read; empty when it can
}

export interface Found {
  name: string;
  reason: string; // "row key carrier"; empty where the name is the reason
}

// --- Rows -----------------------------------------------------------------------------------------------------------

/** A condition on a column. `bars` chooses bars of its header, both ends included; `text` is what a user typed. */
export type Filter =
  | { column: string; bars: [number, number] }
  | { column: string; value: number } // one bar of a header with values
  | { column: string; text: string }
  | { column: string; low: string | null; high: string | null }; // exact texts of keys: low included, high excluded

export interface Sort {
  column: string;
  descending: boolean;
}

export interface Query {
  filters: Filter[];
  sorts: Sort[];
  search: string;
}

export interface RowsAnswer {
  version: number;
  first: number;
  rows: Cell[][]; // in the order of `columns`
  columns: string[];
  total: number | null; // null: unknown without reading all of a large version
  last: boolean;
  where: string; // the filter as SQL; empty for none
  line: string; // the cell that runs the same query
  scan: string; // the same as Python: `session.table("t").at(4).scan(where="…")`
  source: string; // what was read: "2 of 9 files, 1.2 MiB of 8 MiB"
}

/** What the header of a column shows; `of` counts all rows, `counts` those that the filters leave. */
export interface Header {
  ranges: boolean; // bars are ranges (else values)
  bars: string[]; // labels of the bars; empty for a type that has none
  ends?: [string, string]; // of ranges: the least and the greatest value of all rows, written below the bars
  counts: number[];
  of: number[];
  nulls: number;
  rows: number; // rows found
  distinct: number | null; // null where it is not counted
  exact: boolean; // whether `distinct` is exact
}

export interface HeadersAnswer {
  version: number;
  headers: Record<string, Header>;
  unread: string; // why the headers were not read ("1.2 GiB to read"); empty when they were. Ask again with `all: true`.
}

/** For a brush: the counts of each bar of the other columns for each bar of the brushed one, so that a move asks nothing. */
export interface CubeAnswer {
  version: number;
  column: string;
  rows: number[]; // by bar of the brushed column
  columns: Record<string, { counts: number[][]; nulls: number[] }>; // counts[brushed bar][bar]
}

/** A value as a tree, or the whole text of it. */
export interface Tree {
  text: string;
  items?: [string, Tree][];
  more?: string; // "… and 12 more"
}

// --- Changes --------------------------------------------------------------------------------------------------------

export interface ChangedRow {
  kind: "added" | "removed" | "changed";
  cells: Cell[]; // of a changed row those before
  after?: Cell[];
  differs?: boolean[]; // which cells of a changed row differ
}

export interface ColumnChange {
  name: string;
  before: { bars: string[]; counts: number[]; nulls: number; rows: number; distinct: number } | null; // null: no such column there
  after: { bars: string[]; counts: number[]; nulls: number; rows: number; distinct: number } | null;
}

export interface ChangesAnswer {
  before: number;
  after: number;
  line: string;
  keys: string[];
  columns: string[]; // of the rows: the first 100, keys and changed ones before others
  columnsOf: number; // how many the table has
  counts: { added: number; removed: number; changed: number } | null; // null until the rows are compared
  rows: ChangedRow[]; // the first of each kind
  most: number; // at most so many of each kind are listed
  cells: Record<string, number>; // in how many changed rows each column differs
  statistics: ColumnChange[] | null; // of the first 24 columns
  files: { added: FileChange[]; removed: FileChange[] }; // the first 1,000 of each
  filesOf: { added: number; removed: number };
  partitions: { keys: string; rowsBefore: number; rowsAfter: number; added: number; removed: number }[];
  partitionsChanged: number; // `partitions` are the first 1,000 of these
  partitionsOf: number;
  schema: { name: string; before: string; after: string }[]; // columns whose type, or existence, differs ("" for none)
  unread: { rows: string; columns: string }; // how much would have to be read ("1.2 GiB"); empty when it was read
}

export interface FileChange {
  name: string;
  partition: string;
  rows: number;
  bytes: number;
}

/** What an action would do. */
export interface Plan {
  title: string; // "Roll back flights to snapshot 3"
  sentences: string[]; // what happens, one fact each
  line: string; // the command
  button: string; // "Roll back"
  danger: boolean;
  possible: boolean; // whether there is something to do
}

export interface Done {
  sentence: string; // "flights is at snapshot 3 again."
  undo: string; // the command that undoes it; empty for none
}

// --- Key space, schema, history -------------------------------------------------------------------------------------

/** Leaves in key order, one array a property, and files by the leaves that they touch. There may be 50,000 and 100,000. */
export interface KeySpaceAnswer {
  version: number;
  leaves: { id: string[]; range: string[]; low: string[]; rows: number[]; bytes: number[]; files: number[] };
  files: { name: string[]; first: number[]; last: number[]; rows: number[]; bytes: number[]; deleted: number[]; job: number[] }; // job: index into jobs, or -1
  jobs: { leaf: number; files: number; bytes: number }[]; // what a compaction would merge now
  line: string;
}

export interface SchemaAnswer {
  version: number;
  columns: Column[];
  rows: number;
  bytes: number;
  files: number;
  partitions: number;
  comment: string;
  properties: [string, string][]; // those that differ from their defaults
  line: string;
}

/** What `Versions` does not say about one of them. */
export interface CommitAnswer {
  files: number;
  details: [string, string][]; // "job id", "by", …
}

// --- SQL ------------------------------------------------------------------------------------------------------------

export type SqlAnswer =
  | { kind: "rows"; columns: { name: string; type: string; kind: Kind }[]; rows: Cell[][]; last: boolean; source: string; line: string; seconds: number }
  | { kind: "plan"; plan: Plan }; // of a statement that changes something: it is not run

export interface PageAnswer {
  first: number;
  rows: Cell[][];
  last: boolean;
  total: number | null;
  columns?: { name: string; type: string; kind: Kind }[]; // with the first page that comes in `start`, in mode "answer"
}

export interface Completion {
  from: number; // where the replaced word begins
  options: { label: string; apply: string; kind: "table" | "column" | "function" | "keyword" | "version" }[];
}

export type Mark = "bar" | "line" | "area" | "dot" | "hist";

export interface ChartPoint {
  x: string | number; // times in milliseconds
  x2?: number; // of a range, its end
  y: number;
  color?: string;
  rows?: number; // how many rows it stands for, where that is not one
  low?: number; // of many rows, whose mean is y, the least and the greatest
  high?: number;
}

/** The points of a chart; the kernel aggregates and bins, the page draws. */
export interface ChartAnswer {
  mark: Mark;
  title: string;
  x: { label: string; kind: "time" | "number" | "name"; order?: string[] };
  y: { label: string };
  color: { label: string; order: string[] } | null;
  points: ChartPoint[];
  notes: string[]; // what is left out: "6 carriers are in \"other\""
  line: string;
}

// --- Errors and the request table -----------------------------------------------------------------------------------

export interface Failure {
  message: string;
  hint: string;
  place?: { from: number; to: number }; // in the statement, for `sql`
}

/** `do` of each request: what it takes beside `topic` and `id`, and what it answers. */
export interface Requests {
  tables: { args: {}; answer: { names: string[] } };
  details: { args: { names: string[] }; answer: { tables: TableDetails[] } };
  search: { args: { text: string }; answer: { found: Found[] } };
  open: { args: { table: string }; answer: OpenTable };
  schema: { args: { table: string; version: number }; answer: SchemaAnswer };
  rows: { args: { table: string; version: number; query: Query; first: number; count: number; columns: string[] }; answer: RowsAnswer };
  headers: { args: { table: string; version: number; query: Query; columns: string[]; all: boolean }; answer: HeadersAnswer };
  cube: { args: { table: string; version: number; query: Query; column: string; columns: string[] }; answer: CubeAnswer };
  value: { args: { table: string; version: number; query: Query; row: number; column: string }; answer: { tree: Tree } };
  keep: { args: { table: string; version: number; query: Query; variable: string }; answer: { line: string; sentence: string } };
  changes: { args: { table: string; before: number; after: number; asked: ("rows" | "columns")[] }; answer: ChangesAnswer };
  plan: { args: { table: string; action: Action; version: number; name: string }; answer: Plan };
  act: { args: { table: string; action: Action; version: number; name: string }; answer: Done };
  keyspace: { args: { table: string; version: number }; answer: KeySpaceAnswer };
  leaf: { args: { table: string; version: number; leaf: string }; answer: { filters: Filter[] } };
  commit: { args: { table: string; version: number }; answer: CommitAnswer };
  sql: { args: { table: string; version: number; text: string }; answer: SqlAnswer };
  page: { args: { first: number; count: number }; answer: PageAnswer };
  cell: { args: { row: number; column: string }; answer: { tree: Tree } }; // of the answer of `sql`
  complete: { args: { text: string; at: number; table?: string }; answer: Completion }; // table: the one that is shown
  chart: { args: { mark: Mark | ""; x: string; y: string; color: string }; answer: ChartAnswer };
  write: { args: { text: string }; answer: { sentence: string } }; // a cell below, where the notebook can
}
export type Action = "roll back" | "save";
export type Do = keyof Requests;

/** What can be read and set from Python and is kept in step with the page: the trait `selection`. */
export interface Selection {
  table: string;
  version: number; // 0: none
  before: number | null; // the other handle; null while one version is shown
  tab: Tab;
  query: Query;
  statement: string;
}
export type Tab = "rows" | "changes" | "schema" | "partitions" | "history" | "sql";

/** The trait `start`: what the page needs to draw for the first time, without a request. Keys as `requestKey` makes them. */
export interface Start {
  mode: "explorer" | "one table" | "answer"; // an answer: the grid of one SQL answer only
  answers: Record<string, unknown>;
  canWrite: boolean; // whether the notebook takes a new cell
  canKeep: boolean; // whether there are variables to put a DataFrame into
  keywords: string[]; // of SQL
}
