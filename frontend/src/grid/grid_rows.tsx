/** The rows of the grid that are drawn, as functions of what is seen. */
import type { Blocks } from "./blocks";
import { bodyCell } from "./cell";
import type { Place } from "./grid_keys";
import { Sign } from "./grid_parts";
import type { Placed, Seen } from "./placed";
import type { GridColumn } from "./source";

export interface Frame {
  id: string;
  blocks: Blocks;
  placed: Placed;
  seen: Seen;
  active: Place;
  offset: number; // columns before the first: 1 for the sign of a changed row
}

const REUSED = 200; // more rows than are drawn at once: the element of a row that goes is that of one that comes

interface Box {
  width: number;
  left: number | null; // of a column that stays in place
  isLastPinned: boolean;
}

export function boxOf({ offsets, stuck, widths }: Placed, i: number): Box {
  return { width: widths[i] as number, left: i < stuck ? (offsets[i] as number) : null, isLastPinned: i === stuck - 1 };
}

export function bodyRow(frame: Frame, at: number) {
  const { blocks, placed, seen, offset } = frame;
  const mark = offset > 0 ? blocks.mark(at, placed.columns[0]?.name ?? "") : undefined;
  const cell = (i: number) => {
    const column = placed.columns[i] as GridColumn;
    const isActive = at === frame.active.row && i === frame.active.column;
    return bodyCell({
      ...boxOf(placed, i),
      column,
      cell: blocks.cell(at, column.name),
      fraction: placed.fractions[i] as number,
      before: mark && blocks.before(at, column.name),
      index: i + 1 + offset,
      activeId: isActive ? `${frame.id}-active` : "",
    });
  };
  return (
    <div key={at % REUSED} role="row" class={`sx-grid-row${mark ? ` sx-row-${mark.kind}` : ""}`} aria-rowindex={at + 2}>
      {offset > 0 && <Sign mark={mark} />}
      {seen.stuck.map(cell)}
      <div class="sx-grid-gap" role="none" style={{ width: `${seen.gap}px` }} />
      {seen.moving.map(cell)}
    </div>
  );
}
