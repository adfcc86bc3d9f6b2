/** What the Rows tab knows: rows as a source of the grid, headers, and the counts while bars are brushed. */
import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import {
  type Bars, barsOf, brushed, cubeRows, isFiltered, ordered, sortedBy, textOf, withBars, withoutBars, withText,
} from "./filters";
import { chunksOf, keysFirst, namesOf, type ColumnLayout, OWN_LAYOUT } from "./grid/columns";
import type { Block, BlockRequest, GridColumn, GridHeaders, GridSource, GridSorts } from "./grid/source";
import { failureOf } from "./kernel";
import type { CubeAnswer, Header, Query, RowsAnswer, Tree } from "./protocol";
import type { Footer, Store } from "./store";

/** What the rows and headers are of. */
interface Subject { table: string; version: number; query: Query }

interface Known {
  of: string; // the subject
  headers: Record<string, Header>;
}

export class RowsModel {
  readonly layout = signal<ColumnLayout>(OWN_LAYOUT);
  readonly answer = signal<RowsAnswer | null>(null); // the last block: its filter as SQL, its total
  readonly columns: ReadonlySignal<GridColumn[]>;
  readonly source: ReadonlySignal<GridSource | null>;
  readonly headers: GridHeaders;
  readonly sorting: ReadonlySignal<GridSorts>;
  /** The headers as they are shown: while bars are brushed, from the cube. */
  readonly shown: ReadonlySignal<Record<string, Header>>;
  /** How many rows the brushed bars have; null while nothing is brushed. */
  readonly brushedRows: ReadonlySignal<number | null>;
  readonly brush = signal<{ column: string; bars: Bars } | null>(null);
  private readonly known = signal<Known>({ of: "", headers: {} });
  private readonly cube = signal<{ of: string; answer: CubeAnswer } | null>(null);
  private readonly unread = signal("");
  private readonly failure = signal("");
  private footer: Footer | null = null;
  private seen: string[] = []; // columns whose headers are wanted
  private readAll = ""; // the table and version whose headers are read at any size
  private isActive = false;
  private table = "";
  private reading = ""; // the subject and columns that are asked for
  private refused = ""; // what was not read, and is not asked for again by itself
  private lastColumns: GridColumn[] = [];
  private lastSource: GridSource | null = null;
  private static readonly models = new WeakMap<Store, RowsModel>();

  /** The model of a page: it stays while other tabs are seen, with its columns and headers. */
  static of(store: Store): RowsModel {
    const model = RowsModel.models.get(store) ?? new RowsModel(store);
    RowsModel.models.set(store, model);
    return model;
  }

  private constructor(private readonly store: Store) {
    this.columns = computed(() => this.columnsOf());
    this.source = computed(() => this.sourceOf());
    this.shown = computed(() => this.shownHeaders());
    this.brushedRows = computed(() => {
      const [brush, cube] = [this.brush.value, this.readyCube()];
      return brush === null || cube === null ? null : cubeRows(cube, brush.bars);
    });
    this.sorting = computed(() => this.sortingOf(store.query.value));
    this.headers = this.headersOf();
    effect(() => this.follow()); // for as long as the store: it follows nothing else
  }

  /** The tab is seen: the footer is about its rows. Returns what ends it. */
  activate(): () => void {
    this.isActive = true;
    if (this.footer !== null) this.store.footer.value = this.footer;
    return () => {
      this.isActive = false;
      this.brush.value = null;
    };
  }

  setQuery(query: Query): void {
    batch(() => {
      this.brush.value = null;
      this.store.query.value = query;
    });
  }

  private get subject(): Subject {
    return { table: this.store.table.value, version: this.store.version.value, query: this.store.query.value };
  }

  /** The same list as before while the columns are the same. */
  private columnsOf(): GridColumn[] {
    const columns = keysFirst(this.store.schema.value.value?.columns ?? []);
    if (JSON.stringify(columns) !== JSON.stringify(this.lastColumns)) this.lastColumns = columns;
    return this.lastColumns;
  }

  /** The rows of before until the schema of another version is there: it may have other columns. */
  private sourceOf(): GridSource | null {
    const subject = this.subject;
    const schema = this.store.schema.value.value;
    const columns = this.columns.value;
    if (subject.version === 0 || schema === null) this.lastSource = null;
    else if (schema.version === subject.version && keyOf(subject) !== this.lastSource?.key) {
      const isAll = !isFiltered(subject.query);
      this.lastSource = {
        key: keyOf(subject),
        place: keyOf({ ...subject, version: 0 }),
        columns,
        total: isAll ? schema.rows : null,
        fetch: (asked) => this.fetch(subject, asked),
        value: (row, column) => this.value(subject, row, column),
      };
    }
    return this.lastSource;
  }

  private async fetch(subject: Subject, { first, count, columns, slot }: BlockRequest): Promise<Block> {
    const begin = performance.now();
    const asked = { ...subject, first, count, columns };
    const answer = await this.store.kernel.ask("rows", asked, { topic: `rows ${slot}` });
    batch(() => {
      this.answer.value = answer;
      this.footer = { line: answer.line, source: answer.source, seconds: (performance.now() - begin) / 1000 };
      if (this.isActive) this.store.footer.value = this.footer;
    });
    const rows = answer.first === first ? answer.rows : []; // there are fewer rows than was thought
    return { columns: answer.columns, rows, total: answer.total, last: answer.last };
  }

  private async value(subject: Subject, row: number, column: string): Promise<Tree> {
    const { tree } = await this.store.kernel.ask("value", { ...subject, row, column });
    return tree;
  }

  private sortingOf(query: Query): GridSorts {
    return {
      sorts: query.sorts,
      sort: (column, also) => this.setQuery({ ...query, sorts: sortedBy(query.sorts, column, also) }),
      order: (column, descending) => {
        const others = query.sorts.filter((each) => each.column !== column);
        this.setQuery({ ...query, sorts: descending === null ? others : [{ column, descending }] });
      },
    };
  }

  // Headers

  private headersOf(): GridHeaders {
    const model = this;
    return {
      header: (column) => model.shown.value[column] ?? null,
      chosen: (column) => {
        const brush = model.brush.value;
        return brush?.column === column ? brush.bars : barsOf(model.store.query.value, column);
      },
      get failure() {
        return model.failure.value;
      },
      get unread() {
        return model.unread.value;
      },
      read: () => {
        model.readAll = placeOf(model.subject);
        model.unread.value = "";
        void model.readHeaders();
      },
      retry: () => {
        model.refused = "";
        void model.readHeaders();
      },
      needed: (columns) => {
        model.seen = columns;
        void model.readHeaders();
      },
      begin: (column) => void model.readCube(column),
      move: (column, bars) => {
        model.brush.value = { column, bars: ordered(bars) };
      },
      cancel: () => {
        model.brush.value = null;
      },
      apply: (column, bars) => model.apply(column, bars),
      typed: (column) => textOf(model.store.query.value, column),
      type: (column, text) => model.setQuery(withText(model.store.query.peek(), column, text)),
    };
  }

  private shownHeaders(): Record<string, Header> {
    const { headers } = this.known.value;
    const [brush, cube] = [this.brush.value, this.readyCube()];
    return brush === null || cube === null ? headers : brushed(headers, cube, brush.bars);
  }

  /** The cube of what is brushed; null until it is there. */
  private readyCube(): CubeAnswer | null {
    const [brush, cube] = [this.brush.value, this.cube.value];
    const isReady = brush !== null && cube?.answer.column === brush.column && cube.of === this.cubeKey(brush.column);
    return isReady ? cube.answer : null;
  }

  /** The brush stays until the headers of the new filter are there: it shows the same counts. */
  private apply(column: string, bars: Bars | null): void {
    const before = this.store.query.peek();
    const query = withBars(before, column, bars, this.known.peek().headers[column] ?? null);
    if (JSON.stringify(query) === JSON.stringify(before)) {
      this.brush.value = null;
      return;
    }
    batch(() => {
      this.setQuery(query);
      if (bars !== null) this.brush.value = { column, bars: ordered(bars) };
    });
  }

  private cubeKey(column: string): string {
    const { table, version, query } = this.subject;
    return keyOf({ table, version, query: { ...withoutBars(query, column), sorts: [] } });
  }

  private async readCube(column: string): Promise<void> {
    const of = this.cubeKey(column);
    const now = this.cube.peek();
    if (now !== null && now.answer.column === column && now.of === of) return;
    const { table, version } = this.subject;
    const query = withoutBars(this.store.query.peek(), column);
    const columns = Object.keys(this.known.peek().headers).filter((name) => name !== column);
    try {
      const answer = await this.store.kernel.ask("cube", { table, version, query, column, columns });
      this.cube.value = { of, answer };
    } catch (error) {
      failureOf(error); // the rows and headers that follow say what is wrong
    }
  }

  /** Another table, version or query: its headers are read. */
  private follow(): void {
    const { table, version } = this.subject;
    if (table !== this.table) {
      this.table = table;
      batch(() => {
        this.known.value = { of: "", headers: {} };
        this.answer.value = null;
        this.layout.value = OWN_LAYOUT;
        this.brush.value = null;
      });
      this.seen = [];
    }
    const isReady = this.store.schema.value.value?.version === version;
    if (isReady && this.isActive && this.seen.length > 0) void this.readHeaders();
  }

  private async readHeaders(): Promise<void> {
    const { table, version, query } = this.peekSubject();
    const of = headersKey({ table, version, query });
    const known = this.known.peek();
    const schema = this.store.schema.peek().value;
    const all = keysFirst(schema?.columns ?? []);
    const wanted = namesOf(all, chunksOf(all, this.seen));
    const columns = known.of === of ? wanted.filter((name) => !(name in known.headers)) : wanted;
    const asked = `${of} ${columns.join()}`;
    const isSettled = columns.length === 0 || this.reading === asked || this.refused === `${of} ${this.readAll}`;
    if (schema?.version !== version || isSettled) return;
    this.reading = asked;
    const isAll = this.readAll === placeOf({ table, version, query });
    try {
      const answer = await this.store.kernel.ask("headers", { table, version, query, columns, all: isAll });
      batch(() => {
        const before = known.of === of ? known.headers : {};
        this.known.value = { of, headers: { ...before, ...answer.headers } };
        this.unread.value = answer.unread;
        this.failure.value = "";
        this.brush.value = null;
      });
      this.refused = answer.unread === "" ? "" : `${of} ${this.readAll}`;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === null) return;
      batch(() => {
        this.known.value = { of, headers: {} };
        this.failure.value = failure.message;
        this.brush.value = null;
      });
      this.refused = `${of} ${this.readAll}`;
    } finally {
      if (this.reading === asked) this.reading = "";
    }
    void this.readHeaders(); // for columns that came into sight meanwhile
  }

  private peekSubject(): Subject {
    return { table: this.store.table.peek(), version: this.store.version.peek(), query: this.store.query.peek() };
  }
}

function keyOf({ table, version, query }: Subject): string {
  return JSON.stringify([table, version, query.filters, query.sorts, query.search.trim()]);
}

/** The order of rows says nothing about headers. */
function headersKey(subject: Subject): string {
  return keyOf({ ...subject, query: { ...subject.query, sorts: [] } });
}

function placeOf({ table, version }: Subject): string {
  return JSON.stringify([table, version]);
}
