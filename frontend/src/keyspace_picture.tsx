/** The picture of key space: a canvas, a tooltip, an axis and a legend. The list of key ranges is for the keyboard. */
import { type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { clamp, edge, pan, placeAt, type View, wheeled } from "./axis_view";
import { bytes, count, plural, times } from "./format";
import * as layout from "./keyspace_layout";
import {
  barBox, CAPTIONS, captionsOf, filesHeight, INK_NAMES, type Inks, paint, type Picture, STRIP,
} from "./keyspace_paint";
import { useSize } from "./elements";
import type { KeySpaceAnswer } from "./protocol";

const MOST_LANES = 10;
const TICK = 116; // pixels for the text of a boundary
const BESIDE = 16; // pixels from the pointer to the tooltip
const DRAGGED = 4; // pixels: less is a click

export interface Space {
  answer: KeySpaceAnswer;
  usual: number; // the median of rows
  heats: layout.Heat[];
  edges: Float64Array;
}

interface StripParts {
  space: Space;
  view: Signal<View>;
  chosen: Signal<number>;
  hovered: Signal<number | null>;
  crowd: Signal<number>; // the most files at one place, where they are counts and no bars
  dark: boolean; // the theme: other colours for the canvas
  onChoose: (leaf: number) => void;
  onOpen: (leaf: number) => void;
}

export function Strip({ space, view, chosen, hovered, crowd, dark, onChoose, onOpen }: StripParts) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width } = useSize(box);
  const pointer = useSignal<{ x: number; y: number; file: number | null } | null>(null);
  const { answer, edges, heats } = space;
  const shown = view.value;
  const picture = useMemo(() => pictureOf(space, shown, width, canvas.current), [answer, edges, heats, shown, width]);
  useLayoutEffect(() => {
    crowd.value = "counts" in picture.layers ? picture.layers.most : 0;
  }, [picture]);
  useLayoutEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, picture, inksOf(box.current!), width, fontOf(box.current!));
  }, [picture, width, dark]);
  const leafAt = (x: number): number => layout.leafAt(edges, clamp(placeAt(shown, width, x), 0, layout.SIZE));
  const drag = useRef<{ x: number; view: View; moved: boolean } | null>(null);
  const place = (event: PointerEvent): { x: number; y: number } => {
    const at = box.current!.getBoundingClientRect();
    return { x: event.clientX - at.left, y: event.clientY - at.top };
  };
  const onMove = (event: PointerEvent): void => {
    const { x, y } = place(event);
    const held = drag.current;
    if (held && Math.abs(x - held.x) > DRAGGED) held.moved = true;
    if (held?.moved) view.value = pan(held.view, layout.SIZE, placeAt(held.view, width, held.x) - placeAt(held.view, width, x));
    pointer.value = { x, y, file: fileAt(picture, x, y) };
    hovered.value = leafAt(x);
  };
  const onDown = (event: PointerEvent): void => {
    drag.current = { x: place(event).x, view: shown, moved: false };
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
  };
  const onUp = (event: PointerEvent): void => {
    const held = drag.current;
    drag.current = null;
    if (held === null || held.moved) return;
    const leaf = leafAt(place(event).x);
    onChoose(leaf);
    onOpen(leaf);
  };
  const onWheel = (event: WheelEvent): void => {
    const x = event.clientX - box.current!.getBoundingClientRect().left;
    view.value = wheeled(event, shown, layout.SIZE, x, width, layout.leastView(heats.length)) ?? shown;
  };
  const onLeave = (): void => {
    pointer.value = null;
    hovered.value = null;
  };
  const height = picture.floor + STRIP;
  return (
    <div class="sx-keyspace">
      <div
        ref={box} class="sx-keyspace-picture" style={{ height: `${height}px` }} role="img"
        aria-label={`Rows and files of ${plural(edges.length - 1, "partition")}; the list of key ranges has the same`}
        onPointerMove={onMove} onPointerDown={onDown} onPointerUp={onUp} onPointerLeave={onLeave} onWheel={onWheel}
      >
        {INK_NAMES.map((name) => <i key={name} class={`sx-ink sx-ink-${name}`} data-ink={name} aria-hidden="true" />)}
        <canvas ref={canvas} aria-hidden="true" style={{ width: `${width}px`, height: `${height}px` }} />
        {chosen.value >= 0 && <Marker name="chosen" leaf={chosen.value} edges={edges} view={shown} width={width} />}
        {hovered.value !== null && (
          <Marker name="hovered" leaf={hovered.value} edges={edges} view={shown} width={width} />
        )}
      </div>
      <Axis space={space} view={shown} width={width} />
      {pointer.value && hovered.value !== null && (
        <Tooltip space={space} leaf={hovered.value} file={pointer.value.file} at={pointer.value} width={width} />
      )}
    </div>
  );
}

function pictureOf(space: Space, view: View, width: number, canvas: HTMLCanvasElement | null): Picture {
  const { answer, edges, heats } = space;
  const layers = layout.layers(edges, answer.files, view, Math.max(1, width), MOST_LANES);
  const frames = layout.frames(edges, answer.jobs, view, Math.max(1, width));
  const texts = frames.map(({ files, bytes: size, jobs }) => {
    const where = jobs > 1 ? `in ${plural(jobs, "partition")}` : "here";
    const what = `${plural(files, "file")} (${bytes(size)})`;
    return [`Compaction would merge ${what} ${where}`, `Merge ${what}`, plural(files, "file")];
  });
  const pen = canvas?.getContext("2d") ?? null;
  if (pen && canvas) pen.font = fontOf(canvas);
  const captions = captionsOf(frames, texts, width, (text) => pen?.measureText(text).width ?? text.length * 6.5);
  return {
    pieces: layout.strip(edges, heats, view, Math.max(1, width)),
    layers,
    frames,
    captions,
    floor: (answer.jobs.length > 0 ? CAPTIONS : 0) + filesHeight(MOST_LANES, layers),
  };
}

function fileAt(picture: Picture, x: number, y: number): number | null {
  if (!("bars" in picture.layers)) return null;
  const found = picture.layers.bars.find((bar) => {
    const box = barBox(bar, picture.floor);
    return x >= box.x && x <= box.x + box.width && y >= box.y - 1 && y <= box.y + box.height + 1;
  });
  return found?.file ?? null;
}

function inksOf(box: HTMLElement): Inks {
  const found = [...box.querySelectorAll<HTMLElement>("[data-ink]")].map((each) => [
    each.dataset.ink,
    getComputedStyle(each).color,
  ]);
  return Object.fromEntries(found) as Inks;
}

function fontOf(element: HTMLElement): string {
  return `12px ${getComputedStyle(element).fontFamily}`;
}

function Marker(parts: { name: string; leaf: number; edges: Float64Array; view: View; width: number }) {
  const { name, leaf, edges, view, width } = parts;
  const [x, end] = [edge(view, width, edges[leaf] ?? 0), edge(view, width, edges[leaf + 1] ?? layout.SIZE)];
  if (end < 0 || x > width) return null;
  const left = Math.max(0, x);
  return (
    <div
      class={`sx-keyspace-${name}`}
      style={{ left: `${left}px`, width: `${Math.max(2, Math.min(width, end) - left)}px`, height: `${STRIP}px` }}
    />
  );
}

/** Lower keys of leaves below the strip, as many as have room; both ends always have one. */
function Axis({ space, view, width }: { space: Space; view: View; width: number }) {
  const { leaves } = space.answer;
  const [first, last] = [
    layout.leafAt(space.edges, view.first),
    layout.leafAt(space.edges, Math.max(view.first, view.last - 1e-9)),
  ];
  const low = (leaf: number): string => (leaf === 0 ? "First key" : leaves.low[leaf]!);
  const ticks: { x: number; text: string }[] = [];
  for (let leaf = first + 1; leaf <= last && last - first < 2000; leaf++) {
    const x = edge(view, width, space.edges[leaf]!);
    const before = ticks.at(-1)?.x ?? 0;
    if (x - before >= TICK && width - x >= TICK * 2) ticks.push({ x, text: low(leaf) });
  }
  return (
    <div class="sx-keyspace-axis" aria-hidden="true">
      <span class="sx-keyspace-first sx-cut" title={low(first)}>{low(first)}</span>
      {ticks.map((each) => (
        <span
          key={each.text} class="sx-keyspace-tick sx-cut" style={{ left: `${each.x}px`, maxWidth: `${TICK - 8}px` }}
          title={each.text}
        >
          {each.text}
        </span>
      ))}
      <span class="sx-keyspace-last sx-cut">{last + 1 < leaves.id.length ? leaves.low[last + 1] : "Last key"}</span>
    </div>
  );
}

interface TooltipParts {
  space: Space;
  leaf: number;
  file: number | null;
  at: { x: number; y: number };
  width: number;
}

function Tooltip({ space, leaf, file, at, width }: TooltipParts) {
  const { leaves, files } = space.answer;
  const side = at.x > width / 2 ? { right: `${width - at.x + BESIDE}px` } : { left: `${at.x + BESIDE}px` };
  return (
    <div
      class="sx-keyspace-tip sx-raised" style={{ ...side, top: `${Math.max(0, at.y - 3 * BESIDE)}px` }}
      aria-hidden="true"
    >
      {file !== null && (
        <p class="sx-keyspace-tip-file">
          <strong>{files.name[file]}</strong>
          <span>
            {plural(files.rows[file]!, "row")} · {bytes(files.bytes[file]!)}
            {files.deleted[file]! > 0 && ` · ${count(files.deleted[file]!)} deleted`}
          </span>
          <span class="sx-muted">
            {files.job[file]! >= 0
              ? "A compaction would merge it"
              : `In ${plural(files.last[file]! - files.first[file]! + 1, "partition")}`}
          </span>
        </p>
      )}
      <p>
        <strong>{leaves.range[leaf]}</strong>
        <span>
          {plural(leaves.rows[leaf]!, "row")}
          {againstMedian(leaves.rows[leaf]!, space.usual)} · {bytes(leaves.bytes[leaf]!)} ·{" "}
          {plural(leaves.files[leaf]!, "file")}
        </span>
        <span class="sx-muted">Click to see its rows</span>
      </p>
    </div>
  );
}

function againstMedian(rows: number, usual: number): string {
  if (usual === 0 || rows === 0) return "";
  return ` (${times(rows / usual)} the median)`;
}

export function Legend({ space, crowd }: { space: Space; crowd: number }) {
  const present = new Set(space.heats);
  const { jobs } = space.answer;
  return (
    <div class="sx-keyspace-legend">
      <ul aria-label="Rows of a partition">
        <li class="sx-muted">Rows against the median, {count(Math.round(space.usual))}</li>
        {layout.HEATS.filter((each) => present.has(each)).map((heat) => (
          <li key={heat}>
            <span class={`sx-keyspace-swatch sx-ink-${heat}`} />
            {layout.HEAT_LABELS[heat]}
          </li>
        ))}
      </ul>
      <ul aria-label="Files">
        <li>
          <span class="sx-keyspace-file" />
          {crowd > 0 ? `Up to ${plural(crowd, "file")} at one place: zoom in to see each` : "A file"}
        </li>
        {jobs.length > 0 && (
          <li>
            <span class="sx-keyspace-frame" />
            Compaction would merge
          </li>
        )}
      </ul>
    </div>
  );
}
