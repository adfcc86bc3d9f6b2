/** The state of the page: what is selected, and what was answered about it. Parts of it read signals and call actions. */
import { batch, computed, effect, type ReadonlySignal, signal, type Signal } from "@preact/signals";
import { failureOf, Kernel, type Model } from "./kernel";
import type { Action, Do, Failure, OpenTable, Query, Requests, SchemaAnswer, Selection, Start, Tab } from "./protocol";

/** An answer on its way: what is known, whether it is being read, and what went wrong. */
export interface Loaded<T> {
  value: T | null; // the last answer; it stays while a newer one is read, so that nothing jumps
  loading: boolean;
  failure: Failure | null;
}

export const NOTHING: Loaded<never> = { value: null, loading: false, failure: null };
export const NO_QUERY: Query = { filters: [], sorts: [], search: "" };

/** What the footer says: the command for what is shown, what was read, and how long it took. */
export interface Footer { line: string; source: string; seconds: number | null }

/** An action whose plan the Changes tab is to show: a roll back, or a name for a snapshot. */
export interface Planned { action: Action; version: number }

export class Store {
  readonly kernel: Kernel;
  readonly start: Start;
  readonly names: Signal<string[]>;
  readonly listed = signal(false); // whether `names` are known; until then an empty list says nothing
  readonly unlisted = signal<Failure | null>(null); // why the names are not known
  readonly refreshes = signal(0); // counts up when tables may have changed
  readonly dark = signal(false); // the host's theme; read it where colours are drawn on a canvas
  readonly table: Signal<string>;
  readonly version: Signal<number>;
  readonly before: Signal<number | null>;
  readonly tab: Signal<Tab>;
  readonly query: Signal<Query>;
  readonly statement: Signal<string>;
  readonly opened = signal<Loaded<OpenTable>>(NOTHING);
  readonly schema = signal<Loaded<SchemaAnswer>>(NOTHING);
  readonly footer = signal<Footer>({ line: "", source: "", seconds: null });
  readonly planned = signal<Planned | null>(null); // null: no plan is open
  readonly newest: ReadonlySignal<number>;
  private readonly ends: (() => void)[] = [];
  private readonly onMessage = (message: never): void => {
    if ((message as { do?: string }).do === "refresh") void this.refresh(); // Python's `refresh()`
  };
  private readonly onSelection = (): void => this.follow(this.model.get("selection") as Selection);

  constructor(private readonly model: Model) {
    this.start = model.get("start") as Start;
    const chosen = model.get("selection") as Selection;
    this.kernel = new Kernel(model, this.start.answers);
    this.names = signal(this.kernel.peek("tables", {})?.names ?? []);
    this.table = signal(chosen.table);
    this.version = signal(chosen.version);
    this.before = signal(chosen.before);
    this.tab = signal(chosen.tab);
    this.query = signal(chosen.query);
    this.statement = signal(chosen.statement);
    this.newest = computed(() => this.opened.value.value?.versions.number.at(-1) ?? 0);
    if (this.start.mode === "explorer") void this.list();
    model.on("change:selection", this.onSelection);
    model.on("msg:custom", this.onMessage);
    this.ends.push(
      effect(() => this.tell()),
      effect(() => void this.open(this.table.value)),
      effect(() => {
        void [this.table.value, this.tab.value]; // another table or tab has another command: until it is known, none
        this.say("");
      }),
      effect(() => {
        const [table, version] = [this.table.value, this.version.value];
        if (table && version) void this.load(this.schema, "schema", { table, version });
      }),
    );
  }

  /** Ask the kernel and keep the answer in a signal; a superseded request changes nothing. */
  async load<D extends Do>(
    target: Signal<Loaded<Requests[D]["answer"]>>,
    what: D,
    args: Requests[D]["args"],
    options: { topic?: string; parts?: boolean } = {},
  ): Promise<Requests[D]["answer"] | null> {
    const kept = this.kernel.peek(what, args);
    target.value = { value: kept ?? target.peek().value, loading: kept === undefined, failure: null };
    const onPart = (part: Requests[D]["answer"]): void => {
      target.value = { value: part, loading: true, failure: null };
    };
    try {
      const topic = options.topic === undefined ? {} : { topic: options.topic };
      const answer = await this.kernel.ask(what, args, { ...topic, ...(options.parts ? { onPart } : {}) });
      target.value = { value: answer, loading: false, failure: null };
      return answer;
    } catch (error) {
      const failure = failureOf(error);
      if (failure) target.value = { value: target.peek().value, loading: false, failure };
      return null;
    }
  }

  /** Show a table at its newest version; filters and the second handle go. */
  async choose(table: string): Promise<void> {
    if (table === this.table.peek()) return;
    batch(() => {
      this.opened.value = NOTHING;
      this.schema.value = NOTHING;
      this.version.value = 0;
      this.before.value = null;
      this.planned.value = null;
      this.query.value = NO_QUERY;
      this.table.value = table;
    });
  }

  /** Show another version of the table. Filters by typed text stay; bars belong to a version and go. */
  travel(version: number): void {
    batch(() => {
      this.version.value = version;
      const query = this.query.peek();
      const filters = query.filters.filter((each) => "text" in each);
      if (filters.length < query.filters.length) this.query.value = { ...query, filters };
    });
  }

  /** Compare two versions, the older first, on the Changes tab. */
  compare(before: number, after: number): void {
    batch(() => {
      this.before.value = Math.min(before, after);
      this.travel(Math.max(before, after));
      this.tab.value = "changes";
    });
  }

  /** Open the plan of an action at a version on the Changes tab. */
  plan(action: Action, version: number): void {
    batch(() => {
      this.planned.value = { action, version };
      this.tab.value = "changes";
    });
  }

  /** Look for new tables and versions; a page at the newest version moves on to the new one. */
  async refresh(): Promise<void> {
    const wasNewest = this.version.peek() === this.newest.peek();
    const table = this.table.peek();
    if (this.start.mode === "explorer") await this.list();
    const names = this.names.peek();
    this.refreshes.value += 1;
    if (this.listed.peek() && !names.includes(table)) {
      await this.choose(names[0] ?? "");
      return;
    }
    const opened = await this.load(this.opened, "open", { table });
    if (opened && (wasNewest || !opened.versions.number.includes(this.version.peek()))) {
      this.travel(opened.versions.number.at(-1) ?? 0);
    }
  }

  say(line: string, source = "", seconds: number | null = null): void {
    this.footer.value = { line, source, seconds };
  }

  close(): void {
    this.ends.forEach((end) => end());
    this.model.off("change:selection", this.onSelection);
    this.model.off("msg:custom", this.onMessage);
    this.kernel.close();
  }

  /** Learn the names of all tables; the first is shown when none is. */
  private async list(): Promise<void> {
    try {
      const { names } = await this.kernel.ask("tables", {});
      batch(() => {
        this.names.value = names;
        this.listed.value = true;
        this.unlisted.value = null;
      });
      if (!this.table.peek()) await this.choose(names[0] ?? "");
    } catch (error) {
      this.unlisted.value = failureOf(error);
    }
  }

  private async open(table: string): Promise<void> {
    if (!table) return;
    const opened = await this.load(this.opened, "open", { table });
    const isThere = opened?.versions.number.includes(this.version.peek());
    if (opened && !isThere) this.travel(opened.versions.number.at(-1) ?? 0);
  }

  private tell(): void {
    const now: Selection = {
      table: this.table.value,
      version: this.version.value,
      before: this.before.value,
      tab: this.tab.value,
      query: this.query.value,
      statement: this.statement.value,
    };
    if (JSON.stringify(now) === JSON.stringify(this.model.get("selection"))) return;
    this.model.set("selection", now);
    this.model.save_changes();
  }

  private follow(chosen: Selection): void {
    batch(() => {
      this.table.value = chosen.table;
      this.version.value = chosen.version;
      this.before.value = chosen.before;
      this.tab.value = chosen.tab;
      if (JSON.stringify(this.query.peek()) !== JSON.stringify(chosen.query)) this.query.value = chosen.query;
      this.statement.value = chosen.statement;
    });
  }
}
