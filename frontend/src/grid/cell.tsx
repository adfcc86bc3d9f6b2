/** Cells: NULL and '' told apart, exact numbers, one line of nested values and of long text.
 *
 * They are functions and no components: a screen has some hundred cells, and scrolling draws them many times a second.
 */
import { short } from "../format";
import { Icon } from "../icons";
import type { Cell } from "../protocol";
import { exact, fractionSpace, grouped, isNumber, oneLine } from "./cell_text";
import type { GridColumn } from "./source";

export interface CellParts {
  column: GridColumn;
  cell: Cell | undefined; // undefined: it is being read
  before: Cell | undefined; // of a changed row, where it differs
  fraction: number; // characters of the longest fraction of its column, with the point
  index: number; // from 1
  width: number;
  left: number | null; // of a column that stays in place
  isLastPinned: boolean;
  activeId: string; // empty for a cell that is not the active one
}

export function bodyCell(parts: CellParts) {
  const { column, cell, before, left, activeId } = parts;
  const canOpen = cell !== null && cell !== undefined && (typeof cell === "object" || column.kind === "nested");
  const isActive = activeId !== "";
  return (
    <div
      key={column.name} role="gridcell" class={classOf(parts)} aria-colindex={parts.index}
      {...(isActive ? { id: activeId, "aria-selected": true } : {})}
      {...(differs(column, cell) ? { "data-exact": exact(cell as Cell) } : {})}
      style={{ width: `${parts.width}px`, ...(left === null ? {} : { left: `${left}px` }) }}
    >
      {before !== undefined && <del class="sx-cell-before sx-cut">{content(column, before)}</del>}
      {cell !== undefined && (before === undefined ? content(column, cell) : (
        <span class="sx-cut">{content(column, cell)}</span>
      ))}
      {parts.fraction > 0 && cell != null && <i class="sx-cell-pad" data-pad={fractionSpace(cell, parts.fraction)} />}
      {isActive && canOpen && (
        <button
          type="button" class="sx-cell-open" tabindex={-1} aria-label={`Open the value of ${column.name}`}
          title="Open (Enter)"
        >
          <Icon name="full" />
        </button>
      )}
    </div>
  );
}

function classOf({ column, cell, before, left, isLastPinned, activeId }: CellParts): string {
  let classes = "sx-cell";
  if (isNumber(column.kind)) classes += " sx-cell-number";
  else if (column.kind === "nested") classes += " sx-cell-nested";
  if (left !== null) classes += isLastPinned ? " sx-pinned sx-pinned-last" : " sx-pinned";
  if (before !== undefined) classes += " sx-cell-differs";
  if (cell === undefined) classes += " sx-cell-waits";
  if (activeId !== "") classes += " sx-cell-active";
  return classes;
}

/** Whether what is shown is not what is copied. */
function differs(column: GridColumn, cell: Cell | undefined): boolean {
  if (cell === undefined || cell === null) return false;
  return typeof cell === "object" || cell === "" || shownText(column, cell) !== cell;
}

function shownText(column: GridColumn, text: string): string {
  return isNumber(column.kind) ? (column.role ? text : grouped(text)) : oneLine(text);
}

function content(column: GridColumn, cell: Cell) {
  if (cell === null) return <span class="sx-cell-null">NULL</span>;
  if (cell === "") return <span class="sx-cell-none">''</span>;
  if (typeof cell === "string") return shownText(column, cell);
  return [oneLine(cell.cut), <span class="sx-cell-none">… {short(cell.length)} characters</span>];
}
