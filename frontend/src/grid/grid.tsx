/** A virtual grid over any number of rows and columns. */
import { useSignal } from "@preact/signals";
import { useEffect, useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { copyText, Failure } from "../states";
import { bodyCell } from "./cell";
import { exact } from "./cell_text";
import { keysFirst, OWN_LAYOUT, pinnedNames, withHidden, withPin, withWidth } from "./columns";
import "./grid.css";
import { selectedText, Sign, Unread } from "./grid_parts";
import { FULL_HEAD, HeaderCell, PLAIN_HEAD } from "./header";
import { HeaderMenu } from "./header_menu";
import { GUTTER, useBlocks, usePlaced } from "./placed";
import type { GridColumn, GridProps } from "./source";
import { ValuePanel } from "./value_panel";
import { ROW, SIDE, Viewport } from "./viewport";
import { columnsSeen, RowKeys, scaleOf } from "./virtual";

const LEAST_WITH_BARS = 124; // px of a column

interface Active {
  row: number;
  column: number; // of the columns that are shown
}

export function Grid(props: GridProps) {
  const { source, label, headers, sorting } = props;
  const head = headers ? FULL_HEAD : PLAIN_HEAD;
  const own = useSignal(OWN_LAYOUT);
  const layout = props.layout ?? own;
  const id = useId();
  const element = useRef<HTMLDivElement>(null);
  const columns = useMemo(() => keysFirst(source.columns), [source.columns]);
  const viewport = useMemo(() => new Viewport(head), [head]);
  const offset = source.marked ? 1 : 0; // columns before the first: the sign
  const keys = useMemo(() => new RowKeys(), []);
  const { blocks, newest } = useBlocks(source, columns);
  const active = useSignal<Active>({ row: 0, column: 0 });
  const isOpen = useSignal(false); // the value panel
  const menu = useSignal<{ column: GridColumn; left: number; opener: HTMLElement } | null>(null);
  const placed = usePlaced(columns, blocks, layout, viewport, {
    least: headers ? LEAST_WITH_BARS : 0,
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
  const begin = placed.offsets[placed.stuck] as number; // of the columns that move, in px
  const moving = columnsSeen(
    placed.offsets.slice(placed.stuck).map((each) => each - begin),
    viewport.left.value,
    viewport.left.value + viewport.width.value - begin + SIDE,
    1,
  );
  const shown = [
    ...Array.from({ length: placed.stuck }, (_, i) => i),
    ...Array.from({ length: moving.end - moving.first }, (_, i) => placed.stuck + moving.first + i),
  ];
  const names = shown.map((i) => (placed.columns[i] as GridColumn).name);
  const gap = (placed.offsets[placed.stuck + moving.first] as number) - begin;
  const isMeasured = viewport.width.value > 0;

  useLayoutEffect(() => {
    if (!isMeasured) return;
    newest.want(newest === blocks ? viewport.seen : { first: 0, end: viewport.page + 2 }, names);
    headers?.needed(names);
  });
  useEffect(() => {
    const { first, end } = viewport.seen;
    props.onShown?.(first, Math.min(end, rows), blocks.total);
  }, [drawn.first, drawn.end, viewport.height.value, rows, blocks.total, blocks]);

  const now: Active = {
    row: Math.min(active.value.row, Math.max(0, rows - 1)),
    column: Math.min(active.value.column, Math.max(0, placed.columns.length - 1)),
  };
  const column = placed.columns[now.column];
  const isActiveDrawn = now.row >= drawn.first && now.row < drawn.end && shown.includes(now.column);

  const go = (row: number, at: number): void => {
    const to = { row: clamp(row, rows - 1), column: clamp(at, placed.columns.length - 1) };
    active.value = to;
    viewport.reveal(to.row);
    showColumn(to.column);
  };
  const showColumn = (at: number): void => {
    if (at < placed.stuck) return;
    viewport.revealSide((placed.offsets[at] as number) - begin, placed.widths[at] as number, begin);
  };
  useLayoutEffect(() => {
    if (isOpen.value) showColumn(now.column); // the panel takes some of the width
  }, [isOpen.value, viewport.width.value]);
  const focusHeader = (at: number): void => {
    const name = placed.columns[clamp(at, placed.columns.length - 1)]?.name;
    active.value = { row: now.row, column: clamp(at, placed.columns.length - 1) };
    showColumn(active.value.column);
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
    const last = placed.columns.length - 1;
    if (isFar && event.key === "c" && getSelection()?.isCollapsed !== false) void copyCell();
    else if (event.key === "ArrowUp" && now.row === 0) focusHeader(now.column);
    else if (event.key === "ArrowDown") go(isFar ? rows - 1 : now.row + 1, now.column);
    else if (event.key === "ArrowUp") go(isFar ? 0 : now.row - 1, now.column);
    else if (event.key === "ArrowLeft") go(now.row, isFar ? 0 : now.column - 1);
    else if (event.key === "ArrowRight") go(now.row, isFar ? last : now.column + 1);
    else if (event.key === "PageDown") go(now.row + viewport.page, now.column);
    else if (event.key === "PageUp") go(now.row - viewport.page, now.column);
    else if (event.key === "Home") go(isFar ? 0 : now.row, 0);
    else if (event.key === "End") go(isFar ? rows - 1 : now.row, last);
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
    const row = Number(cell.parentElement?.ariaRowIndex ?? 0) - 2;
    const isOpening = event.type === "dblclick" || (event.type === "click" && target.closest(".sx-cell-open") !== null);
    if (isOpening) isOpen.value = true;
    else active.value = { row, column: Number(cell.ariaColIndex) - 1 - offset };
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
        key={each.name}
        column={each}
        index={i + 1 + offset}
        width={placed.widths[i] as number}
        left={i < placed.stuck ? (placed.offsets[i] as number) : null}
        isLastPinned={i === placed.stuck - 1}
        isCurrent={i === now.column}
        headers={headers}
        sorting={sorting}
        onMenu={onMenu}
        onWidth={onWidth}
        onMove={(to) => (to === "down" ? element.current?.focus({ preventScroll: true }) : focusHeader(moves[to]))}
      />
    );
  };
  const row = (at: number, key: number) => {
    const mark = offset ? blocks.mark(at, placed.columns[0]?.name ?? "") : undefined;
    const cell = (i: number) => {
      const each = placed.columns[i] as GridColumn;
      return bodyCell({
        column: each,
        cell: blocks.cell(at, each.name),
        before: mark && blocks.before(at, each.name),
        index: i + 1 + offset,
        width: placed.widths[i] as number,
        left: i < placed.stuck ? (placed.offsets[i] as number) : null,
        isLastPinned: i === placed.stuck - 1,
        activeId: at === now.row && i === now.column ? `${id}-active` : "",
      });
    };
    const stuck = shown.slice(0, placed.stuck);
    return (
      <div key={key} role="row" class={`sx-grid-row${mark ? ` sx-row-${mark.kind}` : ""}`} aria-rowindex={at + 2}>
        {offset > 0 && <Sign mark={mark} />}
        {stuck.map(cell)}
        <div class="sx-grid-gap" role="none" style={{ width: `${gap}px` }} />
        {shown.slice(placed.stuck).map(cell)}
      </div>
    );
  };

  return (
    <div class="sx-grid-root" style={{ "--sx-head": `${head}px` }}>
      <div class="sx-grid-frame">
        <div
          ref={element}
          class={`sx-grid${newest.isSlow.value ? " sx-grid-slow" : ""}`}
          role="grid"
          tabindex={0}
          aria-label={label}
          aria-rowcount={blocks.total === null ? -1 : rows + 1}
          aria-colcount={placed.columns.length + offset}
          aria-busy={blocks.isEmpty && failure === null}
          aria-activedescendant={isActiveDrawn && rows > 0 ? `${id}-active` : undefined}
          onScroll={() => viewport.onScroll()}
          onKeyDown={onKeyDown}
          onCopy={onCopy}
        >
          <div class="sx-grid-space" role="none" style={{ width: `${width}px`, height: `${head + space}px` }}>
            <div class="sx-grid-head" role="rowgroup">
              <div class="sx-grid-row" role="row" aria-rowindex={1}>
                {offset > 0 && <div class="sx-head-cell sx-pinned sx-grid-sign" role="columnheader" aria-label="Change" style={{ left: 0 }} />}
                {shown.slice(0, placed.stuck).map(header)}
                <div class="sx-grid-gap" role="none" style={{ width: `${gap}px` }} />
                {shown.slice(placed.stuck).map(header)}
              </div>
            </div>
            <div
              class="sx-grid-body"
              role="rowgroup"
              onPointerDown={onPick}
              onClick={onPick}
              onDblClick={onPick}
              style={{ top: `${head + drawn.first * ROW - viewport.shift.value}px`, width: `${width}px` }}
            >
              {keys.of({ first: drawn.first, end: Math.min(drawn.end, rows) }).map((key, i) => row(drawn.first + i, key))}
            </div>
          </div>
        </div>
        {headers && failure === null && <Unread headers={headers} />}
        {(isEmpty || failure) && (
          <div class="sx-grid-over">{failure ? <Failure failure={failure} onRetry={() => newest.retry()} /> : props.empty}</div>
        )}
      </div>
      {isOpen.value && column && (
        <ValuePanel source={source} column={column} row={now.row} cell={blocks.cell(now.row, column.name)} onClose={closePanel} />
      )}
      {opened && (
        <HeaderMenu
          key={opened.column.name}
          column={opened.column}
          left={opened.left}
          top={30}
          opener={opened.opener}
          isPinned={pinned.includes(opened.column.name)}
          headers={headers}
          sorting={sorting}
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

function clamp(value: number, most: number): number {
  return Math.max(0, Math.min(value, most));
}
