/** A kernel in the page: a `Model` that answers every request of the protocol from sample tables, after a while. */
import type { Model } from "../src/kernel";
import { requestKey } from "../src/kernel";
import type {
  Action, ChangedRow, ChangesAnswer, ChartAnswer, Do, Failure, KeySpaceAnswer, PageAnswer, Plan, Requests, Selection, SqlAnswer, Start,
  Tab,
} from "../src/protocol";
import { airports, cellOf, empty, flights, noise, type SampleTable } from "./sample_data";
import { SampleRows, Wrong } from "./sample_rows";

export interface SampleOptions {
  latency?: number; // milliseconds of each answer
  mode?: Start["mode"];
  table?: string;
  version?: number;
  before?: number;
  tab?: Tab;
  statement?: string;
  tables?: number; // of the first three, and so many more that are empty
  versions?: number;
  columns?: number;
  leaves?: number;
  files?: number;
  fail?: Do; // this request is answered by an error
  cold?: boolean; // nothing comes with the page
}

interface Message {
  id: number;
  topic: string;
  do: string;
  [name: string]: unknown;
}

type AnswerColumns = NonNullable<PageAnswer["columns"]>;
type Handler = (...args: never[]) => void;
type Answered<D extends Do> = Requests[D]["answer"];
type Args<D extends Do> = Requests[D]["args"];

class Refused extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
}

const STATEMENT = "SELECT origin, count(*) AS n, avg(dep_delay) AS delay\nFROM flights\nGROUP BY origin\nORDER BY delay DESC";
const CHANGING = /^\s*(delete|update|insert|merge|create|drop|alter)\b/i;

export class SampleModel implements Model {
  /** What the page asked, in order; tests count it. */
  readonly asked: Message[] = [];
  private readonly handlers = new Map<string, Set<Handler>>();
  private readonly traits: Record<string, unknown>;
  private readonly timers = new Map<number, ReturnType<typeof setTimeout>[]>();
  private readonly tables = new Map<string, SampleRows>();
  private readonly latency: number;
  private lastAnswer: { columns: string[]; rows: string[][]; described: AnswerColumns } = { columns: [], rows: [], described: [] };

  constructor(private readonly options: SampleOptions = {}) {
    this.latency = options.latency ?? 60;
    this.keepTable(flights(options.versions, options.columns));
    this.keepTable(airports());
    for (let i = 2; i < (options.tables ?? 3); i++) this.keepTable(empty(i === 2 ? "bookings" : `archive-${i}`));
    const table = options.table ?? "flights";
    const newest = this.tables.get(table)?.table.versions.number.at(-1) ?? 0;
    const selection: Selection = {
      table,
      version: options.version ?? newest,
      before: options.before ?? null,
      tab: options.tab ?? "rows",
      query: { filters: [], sorts: [], search: "" },
      statement: options.statement ?? STATEMENT,
    };
    const start: Start = {
      mode: options.mode ?? "explorer",
      answers: options.cold ? {} : this.first(selection),
      canWrite: true,
      canKeep: true,
      keywords: ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "VERSION AS OF", "DELETE FROM", "UPDATE"],
    };
    this.traits = { selection, start };
  }

  get(name: string): unknown {
    return this.traits[name];
  }

  set(name: string, value: unknown): void {
    this.traits[name] = value;
    this.emit(`change:${name}`);
  }

  save_changes(): void {}

  on(event: string, handler: Handler): void {
    if (!this.handlers.has(event)) this.handlers.set(event, new Set());
    this.handlers.get(event)?.add(handler);
  }

  off(event: string, handler: Handler): void {
    this.handlers.get(event)?.delete(handler);
  }

  send(message: unknown): void {
    const asked = structuredClone(message) as Message;
    this.asked.push(asked);
    if (asked.do === "cancel") {
      this.timers.get(asked.id)?.forEach(clearTimeout);
      this.timers.delete(asked.id);
      return;
    }
    const replies = this.replies(asked);
    const timers = replies.map((reply, i) =>
      setTimeout(() => this.emit("msg:custom", { id: asked.id, ...reply }, []), this.latency * (1 + i)),
    );
    this.timers.set(asked.id, timers);
  }

  private emit(event: string, ...args: unknown[]): void {
    this.handlers.get(event)?.forEach((handler) => (handler as (...each: unknown[]) => void)(...args));
  }

  private keepTable(table: SampleTable): void {
    this.tables.set(table.name, new SampleRows(table));
  }

  private first({ table, version, tab, query, statement }: Selection): Record<string, unknown> {
    const columns = this.firstColumns(table);
    const asked: [Do, object][] = [
      ["tables", {}],
      ["open", { table }],
      ["details", { names: [...this.tables.keys()].slice(0, 50) }],
      ["schema", { table, version }],
    ];
    if (this.options.mode === "answer") {
      this.sql(statement, table, version);
      asked.push(["page", { first: 0, count: 100 }]);
    }
    if (tab === "rows") {
      asked.push(["rows", { table, version, query, first: 0, count: 100, columns }]);
      asked.push(["headers", { table, version, query, columns, all: false }]);
    }
    const answers = asked.map(([what, args]) => [requestKey(what, args), this.answer(what, args)] as const);
    return Object.fromEntries(answers.filter(([, answer]) => answer !== undefined));
  }

  /** Keys first, then the others in the order of the schema. */
  private firstColumns(table: string): string[] {
    const columns = this.rows(table).table.columns.map((each) => each.column);
    const inOrder = ["row key", "sort key", ""].flatMap((role) => columns.filter((each) => each.role === role));
    return inOrder.slice(0, 40).map((each) => each.name);
  }

  private replies(asked: Message): object[] {
    if (asked.do === this.options.fail) {
      return [{ error: { message: "The file part-07.parquet is gone.", hint: "Run %sleeper check flights." } }];
    }
    try {
      const answer = this.answer(asked.do as Do, asked);
      if (asked.do === "changes") return partsOfChanges(answer as ChangesAnswer);
      return [{ ok: answer }];
    } catch (error) {
      if (error instanceof Refused) return [{ error: error.failure }];
      if (error instanceof Wrong) return [{ error: { message: error.message, hint: "Type a value, or > < = and a value." } }];
      throw error;
    }
  }

  private rows(name: string): SampleRows {
    const found = this.tables.get(name);
    if (!found) throw new Refused({ message: `There is no table '${name}'.`, hint: "Refresh the list." });
    return found;
  }

  private answer(what: Do, args: object): unknown {
    const answers: { [D in Do]: (args: Args<D>) => Answered<D> } = {
      tables: () => ({ names: [...this.tables.keys()].sort() }),
      details: ({ names }) => ({ tables: names.map((name) => this.details(name)) }),
      search: ({ text }) => ({ found: this.search(text.toLowerCase()) }),
      open: ({ table }) => {
        const { name, comment, versions } = this.rows(table).table;
        return { name, comment, versions, actions: true };
      },
      schema: ({ table, version }) => this.schema(table, version),
      rows: (asked) => this.page(asked),
      headers: ({ table, version, query, columns, all }) => {
        if (table === "flights" && version === 1 && !all) return { version, headers: {}, unread: "1.2 GiB to read" };
        const rows = this.rows(table);
        const headers = Object.fromEntries(columns.map((name) => [name, rows.header(version, query, name)]));
        return { version, headers, unread: "" };
      },
      cube: ({ table, version, query, column, columns }) => this.rows(table).cube(version, query, column, columns),
      value: ({ table, version, query, row, column }) => {
        const rows = this.rows(table);
        const number = rows.select(version, query)[row] ?? 0;
        const found = rows.column(column);
        return { tree: found.tree?.(number) ?? { text: String(cellOf(found, number) ?? "NULL") } };
      },
      keep: ({ variable, table }) => ({
        line: `${variable} = session.table("${table}").scan().to_pandas()`,
        sentence: `${variable} is a DataFrame.`,
      }),
      changes: (asked) => this.changes(asked),
      plan: ({ table, action, version, name }) => this.plan(table, action, version, name),
      act: ({ table, action, version, name }) => this.act(table, action, version, name),
      keyspace: ({ version }) => this.keyspace(version),
      leaf: () => ({ filters: [{ column: "carrier", text: "= DL" }] }),
      history: ({ table, first, count }) => this.history(table, first, count),
      sql: ({ text, table, version }) => this.sql(text, table, version),
      page: ({ first, count }) => ({
        first,
        rows: this.lastAnswer.rows.slice(first, first + count),
        last: first + count >= this.lastAnswer.rows.length,
        total: this.lastAnswer.rows.length,
        ...(first === 0 ? { columns: this.lastAnswer.described } : {}),
      }),
      cell: ({ row, column }) => {
        const at = this.lastAnswer.columns.indexOf(column);
        return { tree: { text: this.lastAnswer.rows[row]?.[at] ?? "" } };
      },
      complete: ({ text, at }) => this.complete(text, at),
      chart: ({ mark, color }) => chart(mark || "line", color),
      write: () => ({ sentence: "The cell is below." }),
    };
    return (answers[what] as (args: object) => unknown)(args);
  }

  private details(name: string): Answered<"details">["tables"][number] {
    const { versions, due, problem } = this.rows(name).table;
    const rows = versions.rows;
    const step = Math.max(1, Math.ceil(rows.length / 40));
    const growth = rows.filter((_, i) => (rows.length - 1 - i) % step === 0);
    return { name, rows: rows.at(-1) ?? 0, bytes: versions.bytes.at(-1) ?? 0, growth, due, problem };
  }

  private search(text: string): Answered<"search">["found"] {
    const found: Answered<"search">["found"] = [];
    for (const { table } of this.tables.values()) {
      if (table.name.includes(text)) {
        found.push({ name: table.name, reason: "" });
        continue;
      }
      const column = table.columns.find((each) => each.column.name.includes(text))?.column;
      if (column) found.push({ name: table.name, reason: `${column.role || "column"} ${column.name}` });
      else if (table.comment.toLowerCase().includes(text)) found.push({ name: table.name, reason: table.comment });
    }
    return found;
  }

  private at(table: string, version: number): { rows: number; bytes: number } {
    const { versions } = this.rows(table).table;
    const at = versions.number.indexOf(version);
    return { rows: versions.rows[at] ?? 0, bytes: versions.bytes[at] ?? 0 };
  }

  private schema(table: string, version: number): Answered<"schema"> {
    const sample = this.rows(table).table;
    return {
      version,
      columns: sample.columns.map((each) => each.column),
      ...this.at(table, version),
      files: 9,
      partitions: 40,
      comment: sample.comment,
      properties: table === "flights" ? [["sleeper.table.compaction.files.batch.size", "4"], ["owner", "ada"]] : [],
      line: `%sleeper describe ${table}@${version}`,
    };
  }

  private page({ table, version, query, first, count, columns }: Args<"rows">): Answered<"rows"> {
    const rows = this.rows(table);
    const found = rows.select(version, query);
    const shown = columns.map((name) => rows.column(name));
    const where = rows.where(version, query);
    const page = [...found.subarray(first, first + count)];
    return {
      version, first, columns, where,
      rows: page.map((row) => shown.map((each) => cellOf(each, row))),
      total: found.length,
      last: first + count >= found.length,
      line: `%sleeper scan ${table}@${version}${where ? ` --where "${where}"` : ""}`,
      scan: `session.table("${table}").at(${version}).scan(${where ? `where='${where}'` : ""})`,
      source: where ? "2 of 9 files, 1.2 MiB of 8.0 MiB" : "1 of 9 files, 312 KiB of 8.0 MiB",
    };
  }

  private changes({ table, before, after, asked }: Args<"changes">): ChangesAnswer {
    const rows = this.rows(table);
    const names = rows.table.columns.map((each) => each.column.name);
    const [added, removed] = rowsBetween(rows, before, after);
    const changed = table === "flights" && before < 15 && after >= 15 ? 1_335 : 0;
    const list: ChangedRow[] = [
      ...added.slice(0, 100).map((row) => ({ kind: "added" as const, cells: cellsOf(rows, row) })),
      ...removed.slice(0, 100).map((row) => ({ kind: "removed" as const, cells: cellsOf(rows, row) })),
      ...Array.from({ length: Math.min(100, changed) }, (_, i) => changedRow(rows, i * 97)),
    ];
    const query = { filters: [], sorts: [], search: "" };
    const statistics = names.map((name) => {
      const [old, now] = [rows.header(before, query, name), rows.header(after, query, name)];
      return {
        name,
        before: { bars: now.bars, counts: resized(old.counts, now.bars.length), nulls: old.nulls, rows: old.rows, distinct: old.distinct ?? 0 },
        after: { bars: now.bars, counts: now.counts, nulls: now.nulls, rows: now.rows, distinct: now.distinct ?? 0 },
      };
    });
    const files = (from: number, to: number) =>
      Array.from({ length: Math.max(0, to - from) }, (_, i) => ({
        name: `part-${from + i}.parquet`, partition: `carrier [${"ABCDE"[i % 5]}, ${"BCDEF"[i % 5]})`, rows: 3_000 + i, bytes: 81_920,
      }));
    return {
      before, after, most: 100, keys: ["carrier", "flight", "time_hour"], columns: names, rows: list,
      line: `%sleeper diff ${table} ${before} ${after}`,
      counts: { added: added.length, removed: removed.length, changed },
      cells: changed ? { dep_delay: changed } : {},
      statistics: asked.includes("columns") ? statistics : null,
      files: { added: files(before, after), removed: before < 8 && after >= 8 ? files(0, 9) : [] },
      partitions: [..."ABCDEFGH"].map((letter, i) => ({
        keys: `carrier [${letter}, ${String.fromCharCode(letter.charCodeAt(0) + 1)})`,
        rowsBefore: 3_000 * i, rowsAfter: 3_000 * i + 1_411, added: 1_411, removed: 0,
      })),
      partitionsChanged: 8, partitionsOf: 40, columnsOf: names.length, filesOf: { added: Math.max(0, after - before), removed: before < 8 && after >= 8 ? 9 : 0 },
      schema: before === 1 ? [{ name: "remarks", before: "", after: "string?" }] : [],
      unread: { rows: "", columns: asked.includes("columns") ? "" : "1.2 GiB" },
    };
  }

  private plan(table: string, action: Action, version: number, name: string): Plan {
    const { versions } = this.rows(table).table;
    const newest = versions.number.at(-1) ?? 0;
    if (action === "save") {
      const shown = name || "NAME";
      return {
        title: `Create a savepoint of ${table} at snapshot ${version}`,
        sentences: [`${this.at(table, version).rows.toLocaleString("en-US")} rows stay readable until it is deleted.`],
        line: `%sleeper create-savepoint ${table}@${version} --name ${shown}`,
        button: "Create savepoint", danger: false, possible: name !== "",
      };
    }
    const lost = this.at(table, newest).rows - this.at(table, version).rows;
    const many = newest - version;
    const undone = many === 1 ? `snapshot ${newest}` : `${many} snapshots, ${version + 1} to ${newest}`;
    return {
      title: `Roll back ${table} to snapshot ${version}`,
      sentences: [
        `Undoes ${undone}: the table loses ${lost.toLocaleString("en-US")} rows.`,
        "No data file is read or written.",
        "The rollback is one more snapshot, and can be rolled back itself.",
      ],
      line: `%sleeper rollback ${table} ${version}`,
      button: "Roll back", danger: true, possible: version !== newest,
    };
  }

  private act(table: string, action: Action, version: number, name: string): Answered<"act"> {
    const rows = this.rows(table);
    const { versions } = rows.table;
    const newest = versions.number.at(-1) ?? 0;
    if (action === "save") {
      if (Object.values(versions.savepoints).flat().includes(name)) {
        throw new Refused({ message: `There is a savepoint '${name}' already.`, hint: "Choose another name." });
      }
      const savepoints = { ...versions.savepoints, [version]: [...(versions.savepoints[version] ?? []), name] };
      this.replace(rows.table, { ...rows.table, versions: { ...versions, savepoints } });
      return { sentence: `Savepoint ${name} keeps snapshot ${version}.`, undo: `%sleeper delete-savepoint ${table} ${name}` };
    }
    const next: SampleTable["versions"] = {
      number: [...versions.number, newest + 1],
      committed: [...versions.committed, Date.UTC(2026, 10, 29, 10, newest % 60)],
      kind: [...versions.kind, "rollback"],
      change: [...versions.change, `to snapshot ${version}`],
      message: [...versions.message, ""],
      rows: [...versions.rows, this.at(table, version).rows],
      bytes: [...versions.bytes, this.at(table, version).bytes],
      savepoints: versions.savepoints,
    };
    const { has } = rows.table;
    const asOf = (row: number, at: number): boolean => has(row, at > newest ? version : at);
    this.replace(rows.table, { ...rows.table, versions: next, has: asOf });
    return { sentence: `${table} is at snapshot ${version} again.`, undo: `%sleeper rollback ${table} ${newest}` };
  }

  private replace(old: SampleTable, table: SampleTable): void {
    this.tables.set(old.name, new SampleRows(table));
  }

  private keyspace(version: number): KeySpaceAnswer {
    return keyspace(version, this.options.leaves ?? 40, this.options.files ?? 9);
  }

  private history(table: string, first: number, count: number): Answered<"history"> {
    const { versions } = this.rows(table).table;
    const total = versions.number.length;
    const entries = Array.from({ length: Math.max(0, Math.min(count, total - first)) }, (_, i) => {
      const at = total - 1 - first - i;
      const number = versions.number[at] as number;
      return {
        number,
        committed: versions.committed[at] as number,
        kind: versions.kind[at] as string,
        change: versions.change[at] as string,
        message: versions.message[at] as string,
        rows: versions.rows[at] as number,
        files: 3 + (at % 7),
        details: [["By", "ada"], ["Job id", `load-${number}`]] as [string, string][],
        savepoints: versions.savepoints[number] ?? [],
      };
    });
    return { entries, total, line: `%sleeper history ${table}` };
  }

  private sql(text: string, table: string, version: number): SqlAnswer {
    if (CHANGING.test(text)) return { kind: "plan", plan: changing(text) };
    const wrong = /\b(dep_dela|delayy|nowhere|SELCT)\b/.exec(text);
    if (wrong) {
      throw new Refused({
        message: `There is no column '${wrong[0]}'.`,
        hint: "Did you mean 'dep_delay'?",
        place: { from: wrong.index, to: wrong.index + wrong[0].length },
      });
    }
    if (!text.trim()) throw new Refused({ message: "There is no statement.", hint: "Write SELECT * FROM flights." });
    const isGrouped = /group by/i.test(text);
    const rows = isGrouped
      ? ["EWR", "LGA", "JFK"].map((origin, i) => [origin, String(120_835 - i * 8_200), String(15.1 - i * 2.37)])
      : Array.from({ length: 2_500 }, (_, i) => [String(i + 1), `N${100 + i}UA`, (noise(i, 40) * 100).toFixed(2)]);
    const columns = isGrouped ? ["origin", "n", "delay"] : ["id", "tail", "amount"];
    const kinds = isGrouped ? (["string", "integer", "float"] as const) : (["integer", "string", "decimal"] as const);
    const types = isGrouped ? ["string", "long", "double"] : ["int", "string", "decimal(12,2)"];
    const described = columns.map((name, i) => ({ name, type: types[i] as string, kind: kinds[i] as (typeof kinds)[number] }));
    this.lastAnswer = { columns, rows, described };
    return {
      kind: "rows",
      columns: described,
      rows: rows.slice(0, 200),
      last: rows.length <= 200,
      source: `${table} at snapshot ${version}, DuckDB, 9 files`,
      line: `%%sleeper sql\n${text}`,
      seconds: 0.18,
    };
  }

  private complete(text: string, at: number): Answered<"complete"> {
    const word = /[\w.]*$/.exec(text.slice(0, at))?.[0].toLowerCase() ?? "";
    const columns = this.rows("flights").table.columns.map((each) => each.column.name);
    const all: Answered<"complete">["options"] = [
      ...columns.map((label) => ({ label, apply: label, kind: "column" as const })),
      ...[...this.tables.keys()].map((label) => ({ label, apply: label, kind: "table" as const })),
      ...["avg", "count", "max", "median"].map((label) => ({ label, apply: `${label}(`, kind: "function" as const })),
      ...["SELECT", "FROM", "WHERE", "GROUP BY"].map((label) => ({ label, apply: label, kind: "keyword" as const })),
      ...["half-year", "18"].map((label) => ({ label, apply: `'${label}'`, kind: "version" as const })),
    ];
    return { from: at - word.length, options: all.filter((each) => each.label.toLowerCase().startsWith(word)) };
  }
}

function partsOfChanges(answer: ChangesAnswer): object[] {
  return [{ part: { ...answer, counts: null, rows: [], cells: {}, statistics: null } }, { ok: answer }];
}

function cellsOf(rows: SampleRows, row: number): ChangedRow["cells"] {
  return rows.table.columns.map((each) => cellOf(each, row));
}

function changedRow(rows: SampleRows, row: number): ChangedRow {
  const cells = cellsOf(rows, row);
  const at = rows.table.columns.findIndex((each) => each.column.name === "dep_delay");
  const after = cells.map((cell, i) => (i === at ? "-3.5" : cell));
  return { kind: "changed", cells, after, differs: cells.map((_, i) => i === at) };
}

/** The rows that only one of two versions has: added, removed. */
function rowsBetween({ table }: SampleRows, before: number, after: number): [number[], number[]] {
  const [added, removed]: [number[], number[]] = [[], []];
  for (let row = 0; row < table.rows; row++) {
    const [was, is] = [table.has(row, before), table.has(row, after)];
    if (is && !was) added.push(row);
    if (was && !is) removed.push(row);
  }
  if (table.name === "flights" && after === 11) for (let row = 0; row < 1_200; row++) added.push(row * 7);
  if (table.name === "flights" && before === 11) for (let row = 0; row < 1_200; row++) removed.push(row * 7);
  return [added, removed];
}

function resized(counts: number[], size: number): number[] {
  return Array.from({ length: size }, (_, i) => counts[i] ?? 0);
}

function keyspace(version: number, many: number, fileCount: number): KeySpaceAnswer {
  const leaves: KeySpaceAnswer["leaves"] = { id: [], range: [], low: [], rows: [], bytes: [], files: [], depth: [] };
  const key = (place: number): string => `${String.fromCharCode(65 + Math.floor((place * 26) / many))}${place % 10}`;
  for (let i = 0; i < many; i++) {
    const rows = Math.round(2_000 + noise(i, 20) * 9_000 + (i === Math.floor(many / 3) ? 90_000 : 0));
    leaves.id.push(`leaf-${i}`);
    leaves.range.push(i === many - 1 ? `carrier ${key(i)} and after` : `carrier ${i ? `${key(i)} to` : "before"} ${key(i + 1)}`);
    leaves.low.push(key(i));
    leaves.rows.push(i % 17 === 5 ? 0 : rows);
    leaves.bytes.push(i % 17 === 5 ? 0 : rows * 24);
    leaves.files.push(0);
    leaves.depth.push(Math.ceil(Math.log2(many)));
  }
  const files: KeySpaceAnswer["files"] = { name: [], first: [], last: [], rows: [], bytes: [], deleted: [], job: [] };
  for (let i = 0; i < fileCount; i++) {
    const isWide = i < 3 || many < 4;
    const first = isWide ? 0 : Math.floor(noise(i, 21) * many);
    const last = isWide ? many - 1 : Math.min(many - 1, first + Math.floor(noise(i, 22) * 4));
    files.name.push(`part-${i}.parquet`);
    files.first.push(first);
    files.last.push(last);
    files.rows.push(28_000 + i);
    files.bytes.push(690_000 + i * 1_024);
    files.deleted.push(i === 1 ? 1_200 : 0);
    files.job.push(i < 3 ? 0 : -1);
    for (let leaf = first; leaf <= last; leaf++) leaves.files[leaf] = (leaves.files[leaf] as number) + 1;
  }
  return {
    version, keys: ["carrier", "flight"], leaves, files,
    jobs: [{ leaf: 0, files: 3, bytes: 2_070_000 }],
    line: `%sleeper partitions flights@${version}`,
  };
}

function changing(text: string): Plan {
  const word = (text.trim().split(/\s+/)[0] as string).toUpperCase();
  return {
    title: word === "DELETE" ? "Delete 58,665 rows from flights" : `${word} changes flights`,
    sentences: ["Deletes 58,665 rows.", "Their files stay; deletion vectors of 71 KiB are written."],
    line: `%%sleeper sql\n${text}`,
    button: `Insert ${word} cell`, danger: word === "DELETE" || word === "DROP", possible: true,
  };
}

function chart(mark: ChartAnswer["mark"], color: string): ChartAnswer {
  const origins = ["EWR", "JFK", "LGA"];
  const x: ChartAnswer["x"] = mark === "bar" ? { label: "Origin", kind: "name", order: origins } : { label: "Month", kind: "time" };
  const points: ChartAnswer["points"] = [];
  for (const [i, origin] of origins.entries()) {
    if (mark === "bar") points.push({ x: origin, y: 15.1 - i * 2.4, ...(color ? { color: origin } : {}) });
    else {
      for (let month = 0; month < 12; month++) {
        const y = 12 + 8 * Math.sin(month / 2 + i) + i;
        if (color || i === 0) points.push({ x: Date.UTC(2013, month), y, ...(color ? { color: origin } : {}) });
      }
    }
  }
  return {
    mark, x, points,
    title: "Mean departure delay by month",
    y: { label: "Delay in minutes" },
    color: color ? { label: "Origin", order: origins } : null,
    notes: color ? ['13 carriers are in "other".'] : [],
    line: `%%sleeper sql --plot ${mark}${color ? ` --color ${color}` : ""}\n${STATEMENT}`,
  };
}
