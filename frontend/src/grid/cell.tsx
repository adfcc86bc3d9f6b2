/** The content of a cell: NULL and '' told apart, exact numbers, one line of nested values and of long text. */
import { short } from "../format";
import type { Cell } from "../protocol";
import { grouped, isNumber, oneLine } from "./cell_text";
import type { GridColumn } from "./source";

export function CellContent({ column, cell, row }: { column: GridColumn; cell: Cell | undefined; row: number }) {
  if (cell === undefined) return <span class="sx-cell-wait" style={{ width: `${waitWidth(column, row)}%` }} />;
  if (cell === null) return <span class="sx-cell-null">NULL</span>;
  if (cell === "") return <span class="sx-cell-none">''</span>;
  if (typeof cell !== "string") {
    return (
      <>
        {oneLine(cell.cut)}
        <span class="sx-cell-none">… {short(cell.length)} characters</span>
      </>
    );
  }
  if (isNumber(column.kind)) return <>{column.role ? cell : grouped(cell)}</>;
  return <>{oneLine(cell)}</>;
}

/** Grey shapes as wide as values, and not all alike. */
function waitWidth(column: GridColumn, row: number): number {
  const least = isNumber(column.kind) ? 25 : 40;
  return least + ((row * 37 + column.name.length * 17) % 30);
}
