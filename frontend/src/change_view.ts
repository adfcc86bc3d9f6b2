/** What the Changes tab makes of an answer: which versions, which rows, which columns first. Pure. */
import type { Block, BlockRequest, GridColumn, RowMark } from "./grid/source";
import type { Cell, ChangedRow, ChangesAnswer, Column, ColumnChange, Versions } from "./protocol";
import type { VersionWords } from "./version_words";

export type ChangeKind = ChangedRow["kind"];

/** The place of the version to compare with: the chosen one, else the one before; below 0 where there is none. */
export function comparedWith({ number }: Versions, version: number, before: number | null): number {
  return before !== null && before !== version ? number.indexOf(before) : number.indexOf(version) - 1;
}

/** The message of a commit; the one that a rollback has by itself, as a sentence. */
export function messageOf({ kind, message }: Pick<VersionWords, "kind" | "message">): string {
  return kind === "rollback" ? message.replace(/^to (snapshot )?/, "Rolled back to ") : message;
}

/** Whether a rollback to the older version would change nothing: the newer one is such a rollback. */
export function isUndone(kind: string, { filesOf, partitionsChanged }: ChangesAnswer): boolean {
  return kind === "rollback" && filesOf.added + filesOf.removed + partitionsChanged === 0;
}

/** The listed rows of the chosen kinds, as the grid reads them. */
export function blockOf(answer: ChangesAnswer, rows: readonly ChangedRow[], asked: BlockRequest): Block {
  const places = asked.columns.map((each) => answer.columns.indexOf(each));
  const shown = rows.slice(asked.first, asked.first + asked.count);
  const picked = <T>(values: readonly T[], other: T): T[] => places.map((at) => values[at] ?? other);
  return {
    columns: asked.columns,
    rows: shown.map((row) => picked<Cell>(row.after ?? row.cells, null)),
    marks: shown.map((row): RowMark => {
      if (row.kind !== "changed") return { kind: row.kind };
      return { kind: row.kind, before: picked<Cell>(row.cells, null), differs: picked(row.differs ?? [], false) };
    }),
    total: rows.length,
    last: asked.first + shown.length >= rows.length,
  };
}

/** The columns of the grid: of the table's schema where it has them. Columns that differ say in how many rows. */
export function gridColumns(answer: ChangesAnswer, schema: readonly Column[]): GridColumn[] {
  const known = new Map(schema.map((each) => [each.name, each]));
  return answer.columns.map((name) => {
    const column = known.get(name);
    const role = answer.keys.includes(name) ? column?.role || "row key" : "";
    return { name, type: column?.type ?? "", kind: column?.kind ?? "string", role, comment: column?.comment ?? "" };
  });
}

/** How far the shares of bars and of NULL are apart: 0 for equal columns, 1 for nothing in common. */
export function distance({ before, after }: ColumnChange): number {
  if (before === null || after === null) return 1;
  const old = new Map(before.bars.map((bar, index) => [bar, before.counts[index]!]));
  const now = new Map(after.bars.map((bar, index) => [bar, after.counts[index]!]));
  const bars = new Set([...before.bars, ...after.bars]);
  const [oldRows, nowRows] = [Math.max(1, before.rows), Math.max(1, after.rows)];
  let apart = Math.abs(before.nulls / oldRows - after.nulls / nowRows);
  for (const bar of bars) apart += Math.abs((old.get(bar) ?? 0) / oldRows - (now.get(bar) ?? 0) / nowRows);
  return Math.min(1, apart / 2);
}

const SAME = 0.001;

/** Columns whose values are spread otherwise, those that differ most first; and the names of the others. */
export function byDistance(columns: readonly ColumnChange[]): { moved: ColumnChange[]; same: string[] } {
  const rated = columns.map((each) => ({ each, apart: distance(each) }));
  const moved = rated.filter(({ apart }) => apart > SAME).sort((a, b) => b.apart - a.apart);
  return {
    moved: moved.map(({ each }) => each),
    same: rated.filter(({ apart }) => apart <= SAME).map(({ each }) => each.name),
  };
}

/** The bars of both versions over one axis. */
export function pairedBars({ before, after }: ColumnChange): { label: string; before: number; after: number }[] {
  const old = new Map((before?.bars ?? []).map((bar, index) => [bar, before!.counts[index]!]));
  const now = new Map((after?.bars ?? []).map((bar, index) => [bar, after!.counts[index]!]));
  const labels = after !== null && after.bars.length > 0 ? [...after.bars] : [];
  for (const label of before?.bars ?? []) if (!labels.includes(label)) labels.push(label);
  return labels.map((label) => ({ label, before: old.get(label) ?? 0, after: now.get(label) ?? 0 }));
}
