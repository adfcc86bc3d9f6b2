/** What the SQL tab knows: the answer, its chart, statements that ran. It stays while other tabs are shown. */
import { batch, signal } from "@preact/signals";
import { statementOf } from "../filters";
import type { GridSource } from "../grid/source";
import type { ChartAnswer, Failure, Mark, PageAnswer, SqlAnswer } from "../protocol";
import { type Loaded, NOTHING, type Store } from "../store";
import { Colors } from "./colors";

export interface ChartChoice {
  mark: Mark | ""; // empty: by the types of the columns
  x: string;
  y: string;
  color: string;
}

export type Face = "table" | "chart";
export type AnswerColumns = NonNullable<PageAnswer["columns"]>;
const MOST_PAST = 100; // statements
const BY_TYPES: ChartChoice = { mark: "", x: "", y: "", color: "" };

/** An answer's rows, as the grid reads them, and its chart. */
export class ShownAnswer {
  readonly face = signal<Face>("table");
  readonly choice = signal<ChartChoice>(BY_TYPES);
  readonly chart = signal<Loaded<ChartAnswer>>(NOTHING);
  readonly source: GridSource;

  constructor(
    private readonly store: Store,
    readonly columns: AnswerColumns,
    readonly first: PageAnswer,
    key: string,
    readonly colors: Colors,
  ) {
    const names = columns.map((each) => each.name);
    this.source = {
      key,
      columns,
      total: first.total ?? (first.last ? first.first + first.rows.length : null),
      fetch: async ({ first: from, count, slot }) => {
        if (from === 0 && (first.last || count <= first.rows.length)) {
          const isAll = first.rows.length <= count;
          return {
            columns: names,
            rows: first.rows.slice(0, count),
            total: this.source.total,
            last: first.last && isAll,
          };
        }
        const topic = { topic: `page ${slot}` };
        const page = await store.kernel.ask("page", { first: from, count }, topic);
        const end = page.last ? page.first + page.rows.length : null;
        return { columns: names, rows: page.rows, total: page.total ?? end, last: page.last };
      },
      value: async (row, column) => (await store.kernel.ask("cell", { row, column })).tree,
    };
  }

  show(face: Face): void {
    this.face.value = face;
    if (face === "chart" && this.chart.peek().value === null) void this.draw(this.choice.peek());
  }

  async draw(choice: ChartChoice): Promise<void> {
    this.choice.value = choice;
    await this.store.load(this.chart, "chart", choice);
  }
}

export class SqlState {
  readonly answer = signal<Loaded<SqlAnswer>>(NOTHING);
  readonly shown = signal<ShownAnswer | null>(null);
  readonly past = signal<string[]>([]);
  readonly status = signal("");
  readonly version = signal(0); // at which the shown answer is
  readonly colors = new Colors();
  private runs = 0;

  constructor(private readonly store: Store) {}

  get failure(): Failure | null {
    return this.answer.value.failure;
  }

  /** Run the statement at the chosen version. */
  async run(): Promise<void> {
    const { store } = this;
    const text = store.statement.peek();
    if (text.trim() === "") return;
    const [table, version] = [store.table.peek(), store.version.peek()];
    batch(() => {
      this.past.value = remembered(this.past.peek(), text);
      this.status.value = "";
      this.answer.value = { ...this.answer.peek(), failure: null };
    });
    const answer = await store.load(this.answer, "sql", { table, version, text });
    batch(() => {
      if (answer === null) {
        if (this.failure !== null) this.forget();
        return;
      }
      this.version.value = version;
      this.runs += 1;
      this.shown.value = answer.kind === "rows" ? this.made(answer) : null;
    });
  }

  private made(answer: Extract<SqlAnswer, { kind: "rows" }>): ShownAnswer {
    const first = { first: 0, rows: answer.rows, last: answer.last, total: null };
    const made = new ShownAnswer(this.store, answer.columns, first, `sql ${this.runs}`, this.colors);
    const before = this.shown.peek();
    if (before !== null && sameNames(before.columns, answer.columns)) {
      made.choice.value = before.choice.peek();
      if (before.face.peek() === "chart") made.show("chart");
    }
    return made;
  }

  stop(): void {
    this.store.kernel.cancel("sql");
    this.answer.value = { ...this.answer.peek(), loading: false };
    this.status.value = "Stopped.";
  }

  /** The statement was edited: what was said about the older one is no longer true. */
  edited(text: string): void {
    this.store.statement.value = text;
    if (this.answer.peek().failure !== null) this.answer.value = { ...this.answer.peek(), failure: null };
  }

  private forget(): void {
    this.answer.value = { ...this.answer.peek(), value: null };
    this.shown.value = null;
  }
}

function sameNames(one: AnswerColumns, other: AnswerColumns): boolean {
  return one.length === other.length && one.every((each, index) => each.name === other[index]!.name);
}

const states = new WeakMap<Store, SqlState>();

export function sqlState(store: Store): SqlState {
  const found = states.get(store) ?? new SqlState(store);
  states.set(store, found);
  return found;
}

/** What an editor that was never used shows. */
export function defaultStatement(table: string): string {
  return table ? statementOf(table, "", []) : "";
}

/** `statements` with one more: the newest first, each once. */
export function remembered(statements: readonly string[], statement: string): string[] {
  const text = statement.trim();
  if (text === "") return [...statements];
  return [text, ...statements.filter((each) => each !== text)].slice(0, MOST_PAST);
}

/** A statement on one line, for the menu. */
export function oneLine(statement: string): string {
  return statement.replace(/\s+/g, " ").trim();
}
