/** A virtual grid over any number of rows and columns. */
import { useSignal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { copyText, Failure } from "../states";
import { exact } from "./cell_text";
import { keysFirst, OWN_LAYOUT, pinnedNames, withHidden, withPin, withWidth } from "./columns";
import "./grid.css";
import { moved, type Place, within } from "./grid_keys";
import { selectedText, SignHeader, Unknown, Unread } from "./grid_parts";
import { bodyRow, boxOf } from "./grid_rows";
import { FULL_HEAD, HeaderCell, PLAIN_HEAD } from "./header";
import { HeaderMenu } from "./header_menu";
import { GUTTER, range, seenColumns, useBlocks, usePlaced } from "./placed";
import type { GridColumn, GridProps } from "./source";
import { ValuePanel } from "./value_panel";
import { ROW, SIDE, Viewport } from "./viewport";
import { scaleOf } from "./virtual";

const LEAST_WITH_BARS = 76; // px of a column

export function Grid(props: GridProps) {
  const { source, label, headers, sorting } = props;
  const bars = headers?.failure ? undefined : headers;
  const head = bars ? FULL_HEAD : PLAIN_HEAD;
  const own = useSignal(OWN_LAYOUT);
  const layout = props.layout ?? own;
  const id = useId();
  const element = useRef<HTMLDivElement>(null);
  const columns = useMemo(() => keysFirst(source.columns), [source.columns]);
  const viewport = useMemo(() => new Viewport(head), [head]);
  const offset = source.marked ? 1 : 0; // columns before the first: the sign
  const { blocks, newest } = useBlocks(source, columns);
  const active = useSignal<Place>({ row: 0, column: 0 });
  const isOpen = useSignal(false); // the value panel
  const menu = useSignal<{ column: GridColumn; left: number; opener: HTMLElement } | null>(null);
  const placed = usePlaced(columns, blocks, layout, viewport, {
    least: bars ? LEAST_WITH_BARS : 0,
    gutter: source.marked ? GUTTER : 0,
  });

  const rows = blocks.rows;
  useLayoutEffect(() => viewport.attach(element.current as HTMLDivElement), [viewport]);
  useLayoutEffect(() => viewport.resize(rows), [viewport, rows]);
  const place = source.place ?? source.key;
  useLayoutEffect(() => {
    viewport.toTop();
    active.value = { ...active.peek(), row: 0 };
  }, [viewport, place]);

  const drawn = viewport.rows.value;
  const seen = seenColumns(placed, viewport);
  const names = [...seen.stuck, ...seen.moving].map((i) => (placed.columns[i] as GridColumn).name);
  const isMeasured = viewport.width.value > 0;

  useLayoutEffect(() => {
    if (!isMeasured) return;
    newest.want(newest === blocks ? viewport.seen : { first: 0, end: viewport.page + 2 }, names);
    headers?.needed(names);
  });
  useEffect(() => {
    const { first, end } = viewport.seen;
    if (newest.failure.value === null) props.onShown?.(first, Math.min(end, rows), blocks.total);
    else props.onShown?.(0, 0, null);
  }, [drawn.first, drawn.end, viewport.height.value, rows, blocks.total, blocks, newest.failure.value]);

  const now = within(active.value, rows, placed.columns.length);
  const column = placed.columns[now.column];
  const isRowDrawn = now.row >= drawn.first && now.row < Math.min(drawn.end, rows);
  const isActiveDrawn = isRowDrawn && [...seen.stuck, ...seen.moving].includes(now.column);

  const go = (to: Place): void => {
    active.value = to;
    viewport.reveal(to.row);
    showColumn(to.column);
  };
  const showColumn = (at: number): void => {
    if (at < placed.stuck) return;
    viewport.revealSide((placed.offsets[at] as number) - seen.begin, placed.widths[at] as number, seen.begin);
  };
  useLayoutEffect(() => {
    if (isOpen.value) showColumn(now.column); // the panel takes some of the width
  }, [isOpen.value, viewport.width.value]);
  const focusHeader = (at: number): void => {
    const to = within({ row: now.row, column: at }, rows, placed.columns.length);
    const name = placed.columns[to.column]?.name;
    active.value = to;
    showColumn(to.column);
    requestAnimationFrame(() => {
      const found = [...(element.current?.querySelectorAll<HTMLElement>(".sx-head-name") ?? [])];
      found.find((each) => each.dataset.column === name)?.focus({ preventScroll: true });
    });
  };
  const closePanel = (): void => {
    isOpen.value = false;
    element.current?.focus({ preventScroll: true });
  };
  const copyCell = async (): Promise<void> => {
    const cell = column && blocks.cell(now.row, column.name);
    if (cell === undefined || element.current === null) return;
    const isCut = cell !== null && typeof cell === "object" && column !== undefined;
    const whole = isCut ? await source.value?.(now.row, column.name).catch(() => undefined) : undefined;
    const text = whole?.text ?? exact(cell);
    await copyText(text, element.current);
  };

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget || event.altKey) return;
    const isFar = event.ctrlKey || event.metaKey;
    const size = { rows, columns: placed.columns.length, page: viewport.page };
    const to = moved({ key: event.key, isFar }, now, size);
    if (to === "headers") focusHeader(now.column);
    else if (to !== null) go(to);
    else if (isFar && event.key === "c" && getSelection()?.isCollapsed !== false) void copyCell();
    else if (event.key === "Enter" || event.key === " ") isOpen.value = rows > 0 && column !== undefined;
    else if (event.key === "Escape" && isOpen.value) closePanel();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  /** A press makes a cell the active one; a double click, or a click of its button, opens its value. */
  const onPick = (event: MouseEvent): void => {
    const target = event.target as Element;
    const cell = target.closest("[role=gridcell]");
    if (cell === null || event.button !== 0) return;
    const row = Number(cell.parentElement?.getAttribute("aria-rowindex")) - 2;
    const isOpening = event.type === "dblclick" || (event.type === "click" && target.closest(".sx-cell-open") !== null);
    if (isOpening) isOpen.value = true;
    else active.value = { row, column: Number(cell.getAttribute("aria-colindex")) - 1 - offset };
  };
  const onCopy = (event: ClipboardEvent): void => {
    const text = selectedText(element.current as HTMLElement);
    if (text === null) return;
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
  };
  const onWidth = (name: string, width: number | null): void => {
    if (width !== null) {
      layout.value = withWidth(layout.value, name, width);
      return;
    }
    const { [name]: _, ...widths } = layout.value.widths;
    layout.value = { ...layout.value, widths };
  };
  const onMenu = (of: GridColumn, opener: HTMLElement): void => {
    const root = element.current?.parentElement as HTMLElement;
    const box = opener.closest(".sx-head-cell")?.getBoundingClientRect() ?? opener.getBoundingClientRect();
    const left = Math.max(4, Math.min(box.left - root.getBoundingClientRect().left, root.clientWidth - 268));
    menu.value = menu.value?.column.name === of.name ? null : { column: of, left, opener };
  };

  const width = placed.offsets.at(-1) as number;
  const left = viewport.left.value; // to the next 64 px below
  const isMore = width > viewport.width.value + (left > 0 ? left + SIDE : 0);
  const space = scaleOf(rows * ROW, viewport.height.value).space;
  const pinned = pinnedNames(columns, layout.value);
  const isEmpty = blocks.total === 0 && !blocks.isEmpty;
  const opened = menu.value;
  const failure = newest.failure.value;

  const header = (i: number) => {
    const each = placed.columns[i] as GridColumn;
    const moves = { left: i - 1, right: i + 1, home: 0, end: placed.columns.length - 1 };
    return (
      <HeaderCell
        key={each.name} column={each} index={i + 1 + offset} {...boxOf(placed, i)} isCurrent={i === now.column}
        headers={bars} sorting={sorting} onMenu={onMenu} onWidth={onWidth}
        onMove={(to) => (to === "down" ? element.current?.focus({ preventScroll: true }) : focusHeader(moves[to]))}
      />
    );
  };
  const frame = { id, blocks, placed, seen, active: now, offset };

  return (
    <div class="sx-grid-root" style={{ "--sx-head": `${head}px` }}>
      <div class="sx-grid-frame">
        {headers?.failure && <Unknown headers={headers} />}
        <div
          ref={element} class={`sx-grid${newest.isSlow.value ? " sx-grid-slow" : ""}`} role="grid" tabindex={0}
          aria-label={label} aria-rowcount={blocks.total === null ? -1 : rows + 1}
          aria-colcount={placed.columns.length + offset} aria-busy={blocks.isEmpty && failure === null}
          aria-activedescendant={isActiveDrawn ? `${id}-active` : undefined} onScroll={() => viewport.onScroll()}
          onKeyDown={onKeyDown} onCopy={onCopy}
        >
          <div class="sx-grid-space" role="none" style={{ width: `${width}px`, height: `${head + space}px` }}>
            <div class="sx-grid-head" role="rowgroup">
              <div class="sx-grid-row" role="row" aria-rowindex={1}>
                {offset > 0 && <SignHeader />}
                {seen.stuck.map(header)}
                <div class="sx-grid-gap" role="none" style={{ width: `${seen.gap}px` }} />
                {seen.moving.map(header)}
              </div>
            </div>
            <div
              class="sx-grid-body" role="rowgroup" onPointerDown={onPick} onClick={onPick} onDblClick={onPick}
              style={{ top: `${head + drawn.first * ROW - viewport.shift.value}px`, width: `${width}px` }}
            >
              {range(drawn.first, Math.min(drawn.end, rows)).map((at) => bodyRow(frame, at))}
            </div>
          </div>
        </div>
        {isMore && <div class="sx-grid-fade" style={{ left: `${viewport.width.value}px` }} />}
        {bars && failure === null && <Unread headers={bars} />}
        {(isEmpty || failure) && (
          <div class="sx-grid-over">
            {failure ? <Failure failure={failure} onRetry={() => newest.retry()} /> : props.empty}
          </div>
        )}
      </div>
      {isOpen.value && column && (
        <ValuePanel
          source={source} column={column} row={now.row} cell={blocks.cell(now.row, column.name)} onClose={closePanel}
        />
      )}
      {opened && (
        <HeaderMenu
          key={opened.column.name} column={opened.column} left={opened.left} top={30} opener={opened.opener}
          isPinned={pinned.includes(opened.column.name)} headers={headers} sorting={sorting}
          onPin={(isPinned) => (layout.value = withPin(columns, layout.value, opened.column.name, isPinned))}
          onHide={() => (layout.value = withHidden(layout.value, [opened.column.name], true))}
          onFit={() => onWidth(opened.column.name, null)}
          onClose={(refocus) => {
            menu.value = null;
            if (refocus) opened.opener.focus({ preventScroll: true });
          }}
        />
      )}
    </div>
  );
}
