/** The rows that a grid has read: blocks around the window, at most two under way, those not seen for long dropped. */
import { signal } from "@preact/signals";
import { failureOf } from "../kernel";
import type { Cell, Failure } from "../protocol";
import { CHUNK, chunksOf, namesOf } from "./columns";
import type { Block, GridColumn, GridSource, RowMark } from "./source";
import { blockKey, blocksOf, type Span } from "./virtual";

export const BLOCK = 100;
const MOST_BLOCKS = 64;
const SLOTS = 2;
const SLOW = 100; // ms: after so long grey shapes are shown for what is read
const CALM = 150; // ms: so long are other rows wanted before a request for rows that are out of sight is given up

interface UnderWay { block: number; chunks: number[] }

interface Kept {
  rows: Cell[][];
  place: Map<string, number>; // of a column in a row
  marks: RowMark[] | undefined;
}

export class Blocks {
  readonly changed = signal(0); // counts what came in
  readonly failure = signal<Failure | null>(null);
  readonly isSlow = signal(false);
  total: number | null;
  private known = 0; // rows before this one are there, when the total is unknown
  private isComplete = false;
  private readonly kept = new Map<string, Kept>(); // the one used last is the last
  private readonly slots: (UnderWay | null)[] = new Array(SLOTS).fill(null);
  private wanted: { block: number; chunk: number }[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  private slow: ReturnType<typeof setTimeout> | null = null;
  private isClosed = false;
  private readonly chunkOf = new Map<string, number>();

  constructor(
    private readonly source: GridSource,
    private readonly columns: GridColumn[], // keys first
  ) {
    this.total = source.total;
    columns.forEach(({ name }, i) => this.chunkOf.set(name, Math.floor(i / CHUNK)));
  }

  /** How many rows the grid has room for: while the total is unknown, a block more than what was read. */
  get rows(): number {
    if (this.total !== null) return this.total;
    return this.isComplete ? this.known : this.known + BLOCK;
  }

  get isEmpty(): boolean {
    return this.kept.size === 0;
  }

  /** The rows and columns that are seen; what is missing of them is asked for. */
  want(rows: Span, names: Iterable<string>): void {
    const chunks = chunksOf(this.columns, names);
    const around = { first: Math.max(0, rows.first - BLOCK / 4), end: Math.min(this.rows, rows.end + BLOCK / 4) };
    const seen = rows.end > rows.first ? rows : { first: 0, end: 1 }; // also of a table without rows: it says so
    const blocks = [...new Set([...blocksOf(seen, BLOCK), ...blocksOf(around, BLOCK)])];
    this.wanted = blocks.flatMap((block) => chunks.map((chunk) => ({ block, chunk })));
    for (const each of this.wanted) this.touch(blockKey(each.block, each.chunk));
    this.fill();
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = setTimeout(() => this.giveUp(), CALM);
  }

  /** A cell; undefined while it is not read. */
  cell(row: number, column: string): Cell | undefined {
    const kept = this.of(row, column);
    return kept?.rows[row % BLOCK]?.[kept.place.get(column) ?? -1];
  }

  mark(row: number, column: string): RowMark | undefined {
    return this.of(row, column)?.marks?.[row % BLOCK];
  }

  /** What a cell of a changed row was before; undefined when it is the same. */
  before(row: number, column: string): Cell | undefined {
    const kept = this.of(row, column);
    const at = kept?.place.get(column);
    const mark = kept?.marks?.[row % BLOCK];
    return at !== undefined && mark?.differs?.[at] ? mark.before?.[at] : undefined;
  }

  /** The first cells of a column that were read, and what they were before, to find its width. */
  sample(column: string): { cells: Cell[]; before: (Cell | undefined)[] } {
    for (const kept of this.kept.values()) {
      const at = kept.place.get(column);
      if (at === undefined) continue;
      const before = (kept.marks ?? []).map((mark) => (mark.differs?.[at] ? mark.before?.[at] : undefined));
      return { cells: kept.rows.map((row) => row[at] as Cell), before };
    }
    return { cells: [], before: [] };
  }

  retry(): void {
    this.failure.value = null;
    this.fill();
  }

  close(): void {
    this.isClosed = true;
    if (this.timer !== null) clearTimeout(this.timer);
    if (this.slow !== null) clearTimeout(this.slow);
  }

  private of(row: number, column: string): Kept | undefined {
    return this.kept.get(blockKey(Math.floor(row / BLOCK), this.chunkOf.get(column) ?? 0));
  }

  private touch(key: string): void {
    const kept = this.kept.get(key);
    if (kept === undefined) return;
    this.kept.delete(key);
    this.kept.set(key, kept);
  }

  private fill(): void {
    if (this.failure.peek() !== null) return;
    for (let slot = 0; slot < SLOTS; slot++) {
      if (this.slots[slot] !== null) continue;
      const next = this.next();
      if (next === null) return;
      void this.read(slot, next);
    }
  }

  /** What is missing of the first block that misses something. */
  private next(): UnderWay | null {
    const isKept = (block: number, chunk: number): boolean => this.kept.has(blockKey(block, chunk));
    const missing = this.wanted.filter((each) => !isKept(each.block, each.chunk) && !this.isUnderWay(each));
    const block = missing[0]?.block;
    if (block === undefined) return null;
    return { block, chunks: missing.filter((each) => each.block === block).map(({ chunk }) => chunk) };
  }

  private isUnderWay({ block, chunk }: { block: number; chunk: number }): boolean {
    return this.slots.some((each) => each !== null && each.block === block && each.chunks.includes(chunk));
  }

  private async read(slot: number, asked: UnderWay): Promise<void> {
    this.slots[slot] = asked;
    this.slow ??= setTimeout(() => (this.isSlow.value = true), SLOW);
    try {
      const columns = namesOf(this.columns, asked.chunks);
      const answer = await this.source.fetch({ first: asked.block * BLOCK, count: BLOCK, columns, slot });
      if (!this.isClosed && this.slots[slot] === asked) this.take(asked, answer);
    } catch (error) {
      const failure = failureOf(error);
      if (failure && !this.isClosed) this.failure.value = failure;
    } finally {
      if (this.slots[slot] === asked) {
        this.slots[slot] = null;
        if (!this.isClosed) this.fill();
        if (this.slots.every((each) => each === null)) this.rest();
      }
    }
  }

  private rest(): void {
    if (this.slow !== null) clearTimeout(this.slow);
    this.slow = null;
    this.isSlow.value = false;
  }

  private take(asked: UnderWay, answer: Block): void {
    const kept = { rows: answer.rows, place: new Map(answer.columns.map((name, i) => [name, i])), marks: answer.marks };
    for (const chunk of asked.chunks) this.kept.set(blockKey(asked.block, chunk), kept);
    for (const key of this.kept.keys()) {
      if (this.kept.size <= MOST_BLOCKS) break;
      this.kept.delete(key);
    }
    const end = asked.block * BLOCK + answer.rows.length;
    this.total = answer.total ?? (answer.last && (answer.rows.length > 0 || end === 0) ? end : this.total);
    this.known = Math.max(this.known, end);
    this.isComplete = this.isComplete || answer.last;
    this.changed.value += 1;
  }

  /** Requests for what is out of sight make room for what is seen. */
  private giveUp(): void {
    this.timer = null;
    for (let slot = 0; slot < SLOTS; slot++) {
      const now = this.slots[slot];
      if (!now || this.wanted.some((each) => each.block === now.block && now.chunks.includes(each.chunk))) continue;
      const next = this.next();
      if (next !== null) void this.read(slot, next);
    }
  }
}
