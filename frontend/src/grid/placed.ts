/** Hooks of a grid: the rows that it reads, and where its columns are. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Blocks } from "./blocks";
import { type ColumnLayout, fractions, ownWidth, shownColumns, stuckPins } from "./columns";
import type { GridColumn, GridSource } from "./source";
import { SIDE, type Viewport } from "./viewport";
import { columnsSeen, offsetsOf } from "./virtual";

export const GUTTER = 28; // px for the sign of a changed row
const STALE = 250; // ms: so long the rows of before are shown while the first of the new ones are read

/** Where each column is: pinned ones first; `stuck` of them stay in place. */
export interface Placed {
  columns: GridColumn[];
  widths: number[];
  fractions: number[]; // characters of the longest fraction of floats, with the point
  offsets: number[]; // in the row; after the last column where it ends
  stuck: number;
}

/** The columns that are drawn, as places in the row. */
export interface Seen {
  stuck: number[];
  moving: number[];
  begin: number; // px before the columns that move
  gap: number; // px of those that are scrolled out
}

/** Reads signals: the component is drawn again when others come into sight. */
export function seenColumns({ offsets, stuck }: Placed, viewport: Viewport): Seen {
  const begin = offsets[stuck] as number;
  const left = viewport.left.value;
  const others = offsets.slice(stuck).map((each) => each - begin);
  const { first, end } = columnsSeen(others, left, left + viewport.width.value - begin + SIDE, 1);
  return { stuck: range(0, stuck), moving: range(stuck + first, stuck + end), begin, gap: others[first] as number };
}

export function range(first: number, end: number): number[] {
  return Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
}

/** The rows to show, and those that are read: for a moment the former are of the source before. */
export function useBlocks(source: GridSource, columns: GridColumn[]): { blocks: Blocks; newest: Blocks } {
  const newest = useMemo(() => new Blocks(source, columns), [source.key, columns]);
  const before = useRef<{ blocks: Blocks; columns: GridColumn[] } | null>(null);
  const isStale = useSignal(true);
  useEffect(() => {
    isStale.value = true;
    const timer = setTimeout(() => (isStale.value = false), STALE);
    return () => {
      clearTimeout(timer);
      newest.close();
    };
  }, [newest]);
  newest.changed.value; // drawn again when rows come
  const old = before.current;
  const isBefore = newest.isEmpty && isStale.value && newest.failure.value === null && old?.columns === columns;
  const blocks = isBefore && old !== null ? old.blocks : newest;
  if (!newest.isEmpty) before.current = { blocks: newest, columns };
  return { blocks, newest };
}

export function usePlaced(
  columns: GridColumn[],
  blocks: Blocks,
  layout: Signal<ColumnLayout>,
  viewport: Viewport,
  room: { least: number; gutter: number },
): Placed {
  const own = useRef(new Map<string, [width: number, fraction: number]>()); // widths by content, once cells were read
  useMemo(() => own.current.clear(), [columns]);
  const { value } = layout;
  const revision = blocks.changed.value;
  const view = viewport.width.value;
  return useMemo(() => {
    const byName = new Map(columns.map((each) => [each.name, each]));
    const { pinned, others } = shownColumns(columns, value);
    const shown = [...pinned, ...others].map((name) => byName.get(name) as GridColumn);
    const sizes = shown.map((each) => sizeOf(each, blocks, own.current, room.least));
    const widths = shown.map((each, i) => value.widths[each.name] ?? (sizes[i]?.[0] as number));
    const offsets = offsetsOf(widths).map((each) => each + room.gutter);
    const stuck = stuckPins(widths.slice(0, pinned.length), view);
    return { columns: shown, widths, fractions: sizes.map(([, fraction]) => fraction), offsets, stuck };
  }, [columns, value, revision, blocks, view, room.least, room.gutter]);
}

type Sizes = Map<string, [width: number, fraction: number]>;

function sizeOf(column: GridColumn, blocks: Blocks, own: Sizes, least: number): [width: number, fraction: number] {
  const known = own.get(column.name);
  if (known !== undefined) return known;
  const { cells, before } = blocks.sample(column.name);
  const size: [number, number] = [ownWidth(column, cells, least, before), fractions(column, cells)];
  if (cells.length > 0) own.set(column.name, size);
  return size;
}
