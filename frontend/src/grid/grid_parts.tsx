/** Parts of the grid: a cell, the sign of a changed row, and the button that reads the headers. */
import { Icon } from "../icons";
import type { Cell } from "../protocol";
import { Button } from "../states";
import { CellContent } from "./cell";
import { exact, isNumber } from "./cell_text";
import type { GridColumn, GridHeaders, RowMark } from "./source";

interface CellParts {
  id: string;
  column: GridColumn;
  cell: Cell | undefined;
  before: Cell | undefined;
  row: number;
  index: number; // from 1
  width: number;
  left: number | null;
  isLastPinned: boolean;
  isActive: boolean;
  onPick: (open: boolean) => void;
}

export function BodyCell(parts: CellParts) {
  const { column, cell, before, left, isActive } = parts;
  const classes = [
    "sx-cell",
    isNumber(column.kind) && "sx-cell-number",
    column.kind === "nested" && "sx-cell-nested",
    left !== null && "sx-pinned",
    parts.isLastPinned && "sx-pinned-last",
    before !== undefined && "sx-cell-differs",
    isActive && "sx-cell-active",
  ];
  const canOpen = cell !== null && cell !== undefined && (typeof cell === "object" || column.kind === "nested");
  return (
    <div
      id={parts.id}
      role="gridcell"
      class={classes.filter(Boolean).join(" ")}
      aria-colindex={parts.index}
      aria-selected={isActive}
      data-exact={cell === undefined ? undefined : exact(cell)}
      style={{ width: `${parts.width}px`, ...(left === null ? {} : { left: `${left}px` }) }}
      onPointerDown={(event) => event.button === 0 && parts.onPick(false)}
      onDblClick={() => parts.onPick(true)}
    >
      {before !== undefined && (
        <del class="sx-cell-before">
          <CellContent column={column} cell={before} row={parts.row} />
        </del>
      )}
      <CellContent column={column} cell={cell} row={parts.row} />
      {isActive && canOpen && (
        <button
          type="button"
          class="sx-cell-open"
          tabindex={-1}
          aria-label={`Open the value of ${column.name}`}
          title="Open (Enter)"
          onClick={() => parts.onPick(true)}
        >
          <Icon name="full" />
        </button>
      )}
    </div>
  );
}

const SIGNS: Record<RowMark["kind"], string> = { added: "+", removed: "−", changed: "~" };

/** Before a changed row: what happened to it, as a sign and as a word for readers of the screen. */
export function Sign({ mark }: { mark: RowMark | undefined }) {
  return (
    <div class="sx-cell sx-pinned sx-grid-sign" role="rowheader" aria-colindex={1} style={{ left: 0 }}>
      {mark && (
        <>
          <span aria-hidden="true">{SIGNS[mark.kind]}</span>
          <span class="sx-unseen">{mark.kind}</span>
        </>
      )}
    </div>
  );
}

/** Over the place of the bars: why there are none yet. */
export function Unread({ headers }: { headers: GridHeaders }) {
  if (headers.unread === "" && headers.failure === "") return null;
  const size = headers.unread.replace(/ to read$/, "");
  return (
    <div class="sx-grid-unread">
      {headers.failure ? (
        <span class="sx-muted" role="alert">
          The histograms could not be read: {headers.failure}
        </span>
      ) : (
        <>
          <Button onClick={() => headers.read()}>Read {size}</Button>
          <span class="sx-muted sx-cut">for histograms, NULL shares and distinct counts</span>
        </>
      )}
    </div>
  );
}

/** The exact text of the selected cells, with tabs and line ends between them; null when nothing is selected. */
export function selectedText(grid: HTMLElement): string | null {
  const selection = getSelection();
  if (selection === null || selection.isCollapsed) return null;
  const lines: string[] = [];
  const cells: HTMLElement[] = [];
  for (const row of grid.querySelectorAll<HTMLElement>(".sx-grid-body > .sx-grid-row")) {
    const all = [...row.querySelectorAll<HTMLElement>(".sx-cell[data-exact]")];
    const chosen = all.filter((each) => selection.containsNode(each, true));
    cells.push(...chosen);
    if (chosen.length > 0) lines.push(chosen.map((each) => each.dataset.exact ?? "").join("\t"));
  }
  const isPart = cells.length === 1 && selection.toString().trim() !== cells[0]?.textContent?.trim();
  if (isPart) return null; // a part of one cell is copied as it is
  return lines.length === 0 ? null : lines.join("\n");
}
