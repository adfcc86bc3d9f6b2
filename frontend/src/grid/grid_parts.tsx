/** Parts of the grid: the sign of a changed row, and the button that reads the headers. */
import { Icon } from "../icons";
import { Button } from "../states";
import { FULL_HEAD } from "./header";
import type { GridHeaders, RowMark } from "./source";

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

export function SignHeader() {
  return (
    <div class="sx-head-cell sx-pinned sx-grid-sign" role="columnheader" aria-colindex={1} style={{ left: 0 }}>
      <span class="sx-unseen">Change</span>
    </div>
  );
}

/** Over the place of the bars: why there are none yet. */
export function Unread({ headers }: { headers: GridHeaders }) {
  if (headers.unread === "") return null;
  return (
    <div class="sx-grid-unread">
      <Button onClick={() => headers.read()}>Read {headers.unread.replace(/ to read$/, "")}</Button>
      <span class="sx-muted sx-cut">for histograms, NULL shares and distinct counts</span>
    </div>
  );
}

/** Above the headers: why they have no bars. */
export function Unknown({ headers }: { headers: GridHeaders }) {
  return (
    <div class="sx-grid-unknown" role="status">
      <Icon name="warning" />
      <span class="sx-cut" title={headers.failure}>The histograms could not be read: {headers.failure}</span>
      <Button look="quiet" onClick={() => headers.retry()}>Try again</Button>
    </div>
  );
}

const COLUMNS = [124, 124, 170, 124, 124, 220, 170];
const ROWS = 12;

/** Before the columns are known. */
export function GridSkeleton() {
  return (
    <div class="sx-grid-root sx-grid-wait sx-grid-slow" aria-busy="true" style={{ "--sx-head": `${FULL_HEAD}px` }}>
      <div class="sx-grid-head sx-grid-row">
        {COLUMNS.map((width, i) => (
          <div key={i} class="sx-head-cell" style={{ width: `${width}px` }}>
            <div class="sx-head-title sx-cell-waits" />
            <div class="sx-head-type" />
            <div class="sx-bars-wait" />
          </div>
        ))}
      </div>
      {Array.from({ length: ROWS }, (_, row) => (
        <div key={row} class="sx-grid-row">
          {COLUMNS.map((width, i) => <div key={i} class="sx-cell sx-cell-waits" style={{ width: `${width}px` }} />)}
        </div>
      ))}
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
    const all = [...row.querySelectorAll<HTMLElement>("[role=gridcell]")];
    const chosen = all.filter((each) => selection.containsNode(each, true));
    cells.push(...chosen);
    if (chosen.length > 0) lines.push(chosen.map((each) => each.dataset.exact ?? each.textContent ?? "").join("\t"));
  }
  const isPart = cells.length === 1 && selection.toString().trim() !== cells[0]?.textContent?.trim();
  if (isPart) return null; // a part of one cell is copied as it is
  return lines.length === 0 ? null : lines.join("\n");
}
