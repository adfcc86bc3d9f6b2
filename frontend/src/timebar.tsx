/** The time bar: versions as a stepped area, kinds of commit, savepoints, and one or two handles. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { clamp, edge, isWhole, pan, reveal, type View, wheeled, whole, zoom } from "./axis_view";
import { type FullScreen, useSize } from "./elements";
import { plural, px } from "./format";
import { Icon } from "./icons";
import { KindMark } from "./kinds";
import { type Action, Menu } from "./menu";
import type { OpenTable } from "./protocol";
import { TablePicker } from "./rail";
import { Button, Skeleton } from "./states";
import type { Store } from "./store";
import "./timebar.css";
import { AREA, BASE, HEIGHT, LitArea, MARK_ROOM, MARKS, Numbers, RowScale, TimePicture, TOP } from "./timebar_picture";
import { bins, indexAt, LEAST_SLOTS, middle, moved } from "./timebar_scale";
import { type Places, Travel } from "./timebar_travel";
import { spoken, wordsOf } from "./version_words";

const TIP_WIDTH = 280;
const MENU_WIDTH = 216;
const EDGE = 4; // so far a pill may reach over the right end
const TIGHT = 48; // px of a slot: below, the sign of the menu is in the pill when it is pointed at

export interface TimeBarParts {
  store: Store;
  picker: boolean; // whether tables are chosen here, as there is no rail
  narrow: boolean;
  folded: boolean; // marks and numbers alone
  fullScreen: FullScreen;
}

export function TimeBar(parts: TimeBarParts) {
  const { store } = parts;
  const opened = store.opened.value.value;
  const travel = useMemo(() => (opened === null ? null : new Travel(store, opened.versions)), [store, opened]);
  useEffect(() => () => travel?.settle(), [travel]);
  return (
    <section class={`sx-time${parts.folded ? " sx-time-folded" : ""}`} aria-label="Versions">
      <TimeHead {...parts} opened={opened} travel={travel} />
      {travel !== null && opened !== null && opened.versions.number.length > 0 ? (
        <TimePlot key={opened.name} store={store} opened={opened} travel={travel} />
      ) : (
        <div class="sx-time-plot sx-time-waiting" style={{ height: px(HEIGHT) }}>
          {store.opened.value.failure === null && <Skeleton height={`${AREA}px`} />}
        </div>
      )}
    </section>
  );
}

function TimeHead(parts: TimeBarParts & { opened: OpenTable | null; travel: Travel | null }) {
  const { store, narrow, fullScreen, opened, travel } = parts;
  const comparing = travel !== null && travel.places.value.before !== null;
  const canCompare = (opened?.versions.number.length ?? 0) > 1;
  const name = store.table.value;
  return (
    <div class="sx-time-head">
      {parts.picker ? <TablePicker store={store} /> : (
        <h2 class="sx-time-title sx-cut" title={opened?.comment || name}>{name}</h2>
      )}
      <div class="sx-time-label">{travel && <VersionLabel travel={travel} narrow={narrow} />}</div>
      {travel && <NewestButton store={store} travel={travel} narrow={narrow} />}
      <Button
        icon={comparing ? "close" : "compare"} disabled={!canCompare}
        title={comparing ? "Show one version (Delete)" : "Compare two versions (Shift-click the time bar)"}
        onClick={() => (comparing ? travel?.stopComparing() : travel?.compare())}
      >
        {comparing ? (narrow ? "Stop" : "Stop comparing") : "Compare"}
      </Button>
      <Button
        look="quiet" icon={fullScreen.isFull ? "leave" : "full"}
        aria-label={fullScreen.isFull ? "Leave full screen" : "Full screen"} onClick={fullScreen.toggle}
      />
    </div>
  );
}

function VersionLabel({ travel, narrow }: { travel: Travel; narrow: boolean }) {
  const { version, before } = travel.places.value;
  const words = wordsOf(travel.versions, version);
  if (before !== null) {
    const older = wordsOf(travel.versions, before);
    return (
      <>
        <strong>Snapshot {older.number} → {words.number}</strong>
        <span class="sx-muted sx-cut" title={`${older.exactly} → ${words.exactly}`}>
          {plural(version - before, "snapshot")}
          {!narrow && `, ${older.when} → ${words.when}`}
        </span>
      </>
    );
  }
  return (
    <>
      <strong>Snapshot {words.number}</strong>
      <span class="sx-time-did">
        <KindMark kind={words.kind} />
        {words.did}
      </span>
      {!narrow && <span class="sx-muted" title={words.exactly}>{words.when}</span>}
      {!narrow && <span class="sx-muted sx-cut" title={words.message}>{words.message}</span>}
    </>
  );
}

/** The way back from an older version. */
function NewestButton({ store, travel, narrow }: { store: Store; travel: Travel; narrow: boolean }) {
  if (travel.places.value.version === travel.versions.number.length - 1) return null;
  return (
    <Button title={`Go to snapshot ${store.newest.value}`} onClick={() => store.travel(store.newest.value)}>
      {narrow ? "Newest" : "Go to newest"}
    </Button>
  );
}

interface PlotParts { store: Store; opened: OpenTable; travel: Travel }

function TimePlot({ store, opened, travel }: PlotParts) {
  const { versions } = opened;
  const count = versions.number.length;
  const plot = useRef<HTMLDivElement>(null);
  const { width } = useSize(plot);
  const [shown, setView] = useState<View>(() => whole(count));
  const [hovered, setHovered] = useState<number | null>(null);
  const { version, before } = travel.places.value;
  const isMoving = travel.isMoving;
  const known = useRef({ count, version });
  // A table that grew is shown whole if it was; a handle that was put elsewhere comes into view.
  const grown = known.current.count !== count && isWhole(shown, known.current.count) ? whole(count) : shown;
  const view = isMoving || known.current.version === version ? grown : reveal(grown, count, version, version + 1);
  useEffect(() => {
    known.current = { count, version };
    if (view !== shown) setView(view);
  });
  const canZoom = !isWhole(view, count) || bins(view, width || 1, MARK_ROOM, count).length < count;
  const picture = useMemo(() => <TimePicture versions={versions} view={view} width={width} />, [versions, view, width]);
  const lit = useMemo(() => <LitArea versions={versions} view={view} width={width} />, [versions, view, width]);
  const placeOf = (event: PointerEvent | WheelEvent): number =>
    event.clientX - (plot.current?.getBoundingClientRect().left ?? 0);
  const zoomTo = (factor: number, index: number): void => setView(zoom(view, count, factor, index + 0.5, LEAST_SLOTS));

  const onPointerDown = (event: PointerEvent): void => {
    if (event.button !== 0 || (event.target as Element).closest(".sx-menu")) return;
    event.preventDefault();
    plot.current?.setPointerCapture(event.pointerId);
    setHovered(null);
    travel.grab(indexAt(view, width, placeOf(event), count), event.shiftKey);
  };
  const onPointerMove = (event: PointerEvent): void => {
    const x = placeOf(event);
    if (!isMoving) {
      const isOver = !(event.target as Element).closest(".sx-menu");
      setHovered(isOver ? indexAt(view, width, x, count) : null);
      return;
    }
    if (event.buttons === 0) return;
    const span = view.last - view.first;
    if (x < 0 || x > width) setView(pan(view, count, ((x < 0 ? -1 : 1) * span) / 50));
    travel.to(indexAt(view, width, clamp(x, 0, width - 1), count));
  };
  const onPointerUp = (event: PointerEvent): void => {
    if (!isMoving) return;
    const index = indexAt(view, width, clamp(placeOf(event), 0, width - 1), count);
    travel.settle();
    const places = travel.places.peek();
    const isOlder = places.before !== null && Math.abs(index - places.before) < Math.abs(index - places.version);
    const handle = plot.current?.querySelector<HTMLElement>(`[data-handle=${isOlder ? "before" : "version"}]`);
    handle?.focus({ focusVisible: false } as FocusOptions); // the ring is for keys
  };
  const onWheel = (event: WheelEvent): void => {
    const to = canZoom ? wheeled(event, view, count, placeOf(event), width, LEAST_SLOTS) : null;
    if (to !== null) setView(to);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const handle = (event.target as HTMLElement).dataset.handle as keyof Places | undefined;
    if (handle === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = (handle === "before" ? before : version) ?? version;
    const page = Math.max(5, Math.round((view.last - view.first) / 10));
    const to = moved(event.key, at, count, page);
    if (to !== null && event.shiftKey && before === null) travel.compare(to);
    else if (to !== null) {
      travel.step(handle, to);
      setView(reveal(view, count, to, to + 1));
    } else if (event.key === "+" || event.key === "=") zoomTo(0.5, at);
    else if (event.key === "-") zoomTo(2, at);
    else if (event.key === "0") setView(whole(count));
    else if (event.key === "Escape" && isMoving) travel.cancel();
    else if ((event.key === "Delete" || event.key === "Backspace") && before !== null) travel.stopComparing();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const actions = actionsAt(store, opened, travel);
  const [from, to] = litRange(view, width, travel.places.value);
  const isTight = width / (view.last - view.first) < TIGHT;
  const pills = pillsOf(versions.number, travel.places.value, isTight, (index) => middle(view, width, index), width);
  return (
    <div class="sx-time-plot" style={{ height: px(HEIGHT) }}>
      <div class="sx-time-side">
        <RowScale rows={versions.rows} />
        {canZoom && <ZoomButtons isAll={isWhole(view, count)} onZoom={(factor) => zoomTo(factor, version)} />}
      </div>
      <div
        class={`sx-time-field${isMoving ? " sx-time-moving" : ""}`} ref={plot} onPointerDown={onPointerDown}
        onPointerMove={onPointerMove} onPointerUp={onPointerUp} onPointerCancel={() => travel.cancel()}
        onPointerLeave={() => setHovered(null)} onWheel={onWheel} onKeyDown={onKeyDown}
      >
        {width > 0 && (
          <>
            {picture}
            <svg
              class="sx-time-picture" width={width} height={HEIGHT}
              style={{ clipPath: `inset(0 ${px(Math.max(0, width - to))} 0 ${px(Math.max(0, from))})` }}
              aria-hidden="true"
            >
              {lit}
            </svg>
            <Numbers versions={versions} view={view} width={width} covered={pills} />
            {hovered !== null && <Tip travel={travel} index={hovered} x={middle(view, width, hovered)} width={width} />}
            {before !== null && (
              <Handle handle="before" travel={travel} x={middle(view, width, before)} width={width} />
            )}
            <Handle handle="version" travel={travel} x={middle(view, width, version)} width={width} />
            {pills.map((pill) => (
              <Pill
                key={String(pill.isMain)} {...pill} travel={travel} width={width} isTight={isTight} actions={actions}
              />
            ))}
          </>
        )}
      </div>
    </div>
  );
}

/** Which part of the area is selected: the version's slot, or all from one handle to the other. */
function litRange(view: View, width: number, { version, before }: Places): [number, number] {
  if (before !== null) return [middle(view, width, before), middle(view, width, version)];
  const [from, to] = [edge(view, width, version), edge(view, width, version + 1)];
  const missing = Math.max(0, 3 - (to - from)) / 2;
  return [from - missing, to + missing];
}

interface PillPlace {
  x: number;
  half: number; // of its width
  text: string;
  isMain: boolean; // of the version, with its menu
}

/** The pills in view; two that would touch are one. */
function pillsOf(
  numbers: readonly number[],
  { version, before }: Places,
  isTight: boolean,
  place: (index: number) => number,
  width: number,
): PillPlace[] {
  const pill = (x: number, text: string, isMain: boolean): PillPlace => {
    const half = (text.length * 8 + (isMain && !isTight ? 36 : 20)) / 2;
    return { x: clamp(x, half, width + EDGE - half), half, text, isMain };
  };
  const main = pill(place(version), `${numbers[version]}`, true);
  const older = before === null ? null : pill(place(before), `${numbers[before]}`, false);
  const isOne = older !== null && Math.abs(main.x - older.x) < main.half + older.half + 4;
  if (isOne) return [pill((main.x + older.x) / 2, `${older.text} → ${main.text}`, true)];
  const isSeen = (index: number): boolean => place(index) >= -1 && place(index) <= width + 1;
  return [...(older !== null && isSeen(before as number) ? [older] : []), ...(isSeen(version) ? [main] : [])];
}

interface HandleParts { travel: Travel; x: number; width: number }

function Handle({ handle, travel, x, width }: HandleParts & { handle: keyof Places }) {
  const { versions } = travel;
  const { version, before } = travel.places.value;
  const at = handle === "before" ? (before ?? 0) : version;
  const isAway = x < -1 || x > width + 1;
  return (
    <div
      class={`sx-time-handle sx-time-${handle}${isAway ? " sx-away" : ""}`}
      style={{ left: px(x), top: px(TOP - 2), height: px(AREA + 2) }} role="slider" tabIndex={0} data-handle={handle}
      aria-label={handle === "before" ? "Compared with version" : "Version"} aria-orientation="horizontal"
      aria-valuemin={versions.number[0]} aria-valuemax={versions.number.at(-1)} aria-valuenow={versions.number[at]}
      aria-valuetext={spoken(versions, at)}
    />
  );
}

/** The number of the version below its handle, which opens a menu of what can be done there. */
function Pill(parts: PillPlace & HandleParts & { isTight: boolean; actions: Action[] }) {
  const { travel, x, text, width, isTight, actions } = parts;
  const number = travel.versions.number[travel.places.value.version] ?? 0;
  const style = { left: px(x), top: px(BASE + MARKS) };
  if (!parts.isMain) {
    return <span class="sx-time-pill sx-time-pill-before" style={style}>{text}</span>;
  }
  return (
    <div class={`sx-time-pill-place${isTight ? " sx-time-tight" : ""}`} style={style}>
      <Menu
        label={`Actions at snapshot ${number}`} class={x + MENU_WIDTH > width ? "sx-menu-end" : ""} actions={actions}
      >
        <span class="sx-time-pill">
          {text}
          <Icon name="down" />
        </span>
      </Menu>
    </div>
  );
}

function actionsAt(store: Store, opened: OpenTable, travel: Travel): Action[] {
  const { version } = travel.places.value;
  const last = opened.versions.number.length - 1;
  const number = opened.versions.number[version] ?? 0;
  const comparing: Action[] = [
    { text: "Compare with the version before", icon: "compare", disabled: version === 0, run: () => travel.compare() },
    { text: "Compare with the newest", icon: "compare", disabled: version === last, run: () => travel.compare(last) },
  ];
  if (!opened.actions) return comparing;
  const isNewest = version === last;
  return [
    ...comparing,
    { text: "Name this snapshot…", icon: "flag", run: () => store.plan("save", number) },
    {
      text: "Roll back to here…",
      icon: "back",
      disabled: isNewest,
      note: "This is the newest snapshot",
      run: () => store.plan("roll back", number),
    },
  ];
}

function ZoomButtons({ isAll, onZoom }: { isAll: boolean; onZoom: (factor: number) => void }) {
  return (
    <div class="sx-time-zoom" style={{ top: px(BASE + MARKS) }}>
      <Button look="quiet" icon="minus" aria-label="Zoom out" disabled={isAll} onClick={() => onZoom(2)} />
      <Button look="quiet" icon="plus" aria-label="Zoom in" onClick={() => onZoom(0.5)} />
    </div>
  );
}

function Tip({ travel, index, x, width }: HandleParts & { index: number }) {
  const words = wordsOf(travel.versions, index);
  const left = clamp(x - TIP_WIDTH / 2, 0, Math.max(0, width - TIP_WIDTH));
  return (
    <>
      <div class="sx-time-hover" style={{ left: px(x), top: px(TOP), height: px(AREA) }} />
      <div class="sx-time-tip sx-raised" style={{ left: px(left), top: px(BASE + MARKS + 2), width: px(TIP_WIDTH) }}>
        <div class="sx-time-tip-head">
          <strong>Snapshot {words.number}</strong>
          <span class="sx-muted">{words.when}</span>
        </div>
        <div class="sx-time-did">
          <KindMark kind={words.kind} />
          {words.did}
        </div>
        {words.message && <div class="sx-time-message">{words.message}</div>}
        {words.savepoints.map((name) => (
          <div key={name} class="sx-time-did">
            <Icon name="flag" />
            {name}
          </div>
        ))}
        <div class="sx-muted">{words.size}</div>
        <div class="sx-muted">{words.exactly}</div>
      </div>
    </>
  );
}
