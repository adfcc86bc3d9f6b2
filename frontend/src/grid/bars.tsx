/** The bars of a header: all rows in grey, those that the filters leave in the accent; brushed by mouse or keyboard. */
import { type Signal, useSignal } from "@preact/signals";
import { barsText, movedBars, type Bars } from "../filters";
import { count, percent, plural, short } from "../format";
import type { Header } from "../protocol";
import { grouped } from "./cell_text";
import { widthOf } from "./columns";
import type { GridHeaders } from "./source";

export const BARS_HEIGHT = 24;
const LEAST = 2; // px of a bar that is not zero
const LABEL = 6.6; // px of a character of 12 px

interface BarsParts {
  name: string;
  header: Header;
  headers: GridHeaders;
  width: number;
  isCurrent: boolean; // whether the Tab key comes to it
}

export function HeaderBars({ name, header, headers, width, isCurrent }: BarsParts) {
  const hovered = useSignal<number | null>(null);
  const anchor = useSignal<number | null>(null); // of a choice with the keyboard
  const dragged = useSignal<{ from: number; was: Bars | null } | null>(null);
  const chosen = headers.chosen(name);
  const bars = header.bars.length;
  const barAt = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.min(bars - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * bars)));
  };

  const onPointerDown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    (event.currentTarget as Element).setPointerCapture(event.pointerId);
    const from = barAt(event);
    dragged.value = { from, was: chosen };
    hovered.value = null;
    anchor.value = null;
    headers.begin(name);
    headers.move(name, [from, from]);
  };
  const onPointerMove = (event: PointerEvent): void => {
    const at = barAt(event);
    hovered.value = dragged.value === null ? at : null;
    if (dragged.value !== null) headers.move(name, [dragged.value.from, at]);
  };
  const onPointerUp = (event: PointerEvent): void => {
    if (dragged.value === null) return;
    const { from, was } = dragged.value;
    const at = barAt(event);
    dragged.value = null;
    const isSame = was !== null && from === at && was[0] === at && was[1] === at;
    headers.apply(name, isSame ? null : [from, at]);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const isMove = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key);
    if (isMove && !event.altKey && !event.ctrlKey && !event.metaKey) {
      const now = chosen ?? [-1, -1];
      const [next, from] =
        chosen === null
          ? ([[0, 0], 0] as [Bars, number])
          : movedBars(now as Bars, anchor.value ?? now[0], event.key, event.shiftKey, bars);
      if (anchor.value === null) headers.begin(name);
      anchor.value = from;
      headers.move(name, next);
    } else if (event.key === "Enter" && anchor.value !== null && chosen !== null) {
      anchor.value = null;
      headers.apply(name, chosen);
    } else if (event.key === "Escape" && dragged.value !== null) {
      dragged.value = null;
      headers.cancel();
    } else if (event.key === "Escape" && anchor.value !== null) {
      anchor.value = null;
      headers.cancel();
    } else if (event.key === "Escape" && chosen !== null) {
      headers.apply(name, null);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const onBlur = (): void => {
    if (anchor.value !== null) headers.cancel();
    anchor.value = null;
  };
  const onCancel = (): void => {
    if (dragged.value !== null) headers.cancel();
    dragged.value = null;
  };

  const isMoving = anchor.value !== null || dragged.value !== null;
  const now = chosen === null ? 0 : anchor.value === null || chosen[1] !== anchor.value ? chosen[1] : chosen[0];
  return (
    <>
      <div
        class="sx-bars" role="slider" tabindex={isCurrent ? 0 : -1} aria-label={`Filter ${name}`}
        title="Drag or click to filter" aria-valuemin={0} aria-valuemax={Math.max(0, bars - 1)} aria-valuenow={now}
        aria-valuetext={chosen === null ? "All rows" : said(header, chosen)} onPointerDown={onPointerDown}
        onPointerMove={onPointerMove} onPointerUp={onPointerUp} onPointerCancel={onCancel}
        onPointerLeave={() => (hovered.value = null)} onKeyDown={onKeyDown} onBlur={onBlur}
      >
        <Picture header={header} width={width} chosen={chosen} hovered={hovered} />
      </div>
      <Caption header={header} width={width} chosen={isMoving ? chosen : null} hovered={hovered.value} />
    </>
  );
}

function said(header: Header, bars: Bars): string {
  return `${barsText(header, bars)}: ${plural(rowsOf(header, bars), "row")}`;
}

function rowsOf(header: Header, [first, last]: Bars): number {
  return header.counts.slice(first, last + 1).reduce((sum, each) => sum + each, 0);
}

interface PictureParts {
  header: Header;
  width: number;
  chosen: Bars | null;
  hovered: Signal<number | null>;
}

function Picture({ header, width, chosen, hovered }: PictureParts) {
  const bars = header.of.length;
  const most = header.of.reduce((a, b) => Math.max(a, b), 1);
  const step = width / Math.max(1, bars);
  const gap = step < 3 ? 0 : header.ranges || step < 8 ? 1 : 2;
  const at = hovered.value;
  const named = header.ranges ? -1 : topOf(header); // its value is below the bars
  return (
    <svg width={width} height={BARS_HEIGHT} aria-hidden="true" focusable="false">
      {chosen !== null && (
        <rect
          class="sx-bars-chosen" x={chosen[0] * step} y={0} width={(chosen[1] - chosen[0] + 1) * step}
          height={BARS_HEIGHT}
        />
      )}
      {at !== null && <rect class="sx-bars-hovered" x={at * step} y={0} width={step} height={BARS_HEIGHT} />}
      <path class="sx-bars-of" d={outline(header.of, most, step, gap)} />
      <path class="sx-bars-counts" d={outline(header.counts, most, step, gap)} />
      {named >= 0 && <path class="sx-bars-named" d={outline(only(header.counts, named), most, step, gap)} />}
    </svg>
  );
}

/** All bars of one colour as one path. */
export function outline(counts: number[], most: number, step: number, gap: number): string {
  let path = "";
  counts.forEach((each, i) => {
    if (each <= 0) return;
    const height = Math.max(LEAST, Math.round((Math.min(each, most) / most) * (BARS_HEIGHT - 2)));
    const width = Math.max(1, step - gap);
    const [left, right] = [i * step + gap / 2, width.toFixed(1)];
    path += `M${left.toFixed(1)} ${BARS_HEIGHT - height}h${right}v${height}h-${right}z`;
  });
  return path;
}

/** The days of two times, where they differ; long numbers in groups. */
export function endsText([low, high]: [string, string]): [string, string] {
  const [begin, end] = [DAY.exec(low)?.[1], DAY.exec(high)?.[1]];
  if (begin !== undefined && end !== undefined && begin !== end) return [begin, end];
  return [grouped(low), grouped(high)];
}

const DAY = /^(\d{4}-\d\d-\d\d)[ T]/;

interface CaptionParts {
  header: Header;
  width: number;
  chosen: Bars | null;
  hovered: number | null;
}

/** Below the bars: what is pointed at, the ends of a scale, or the values. */
function Caption({ header, width, chosen, hovered }: CaptionParts) {
  const pointed: Bars | null = chosen ?? (hovered === null ? null : [hovered, hovered]);
  if (pointed !== null) {
    return (
      <div class="sx-bars-caption sx-bars-pointed">
        <span class="sx-cut">{barsText(header, pointed)}</span>
        {chosen === null && <span>{count(rowsOf(header, pointed))}</span>}
      </div>
    );
  }
  if (header.ends !== undefined) {
    const [low, high] = endsText(header.ends);
    const fits = (widthOf(low) + widthOf(high) + 2) * LABEL <= width;
    return (
      <div class="sx-bars-caption">
        <span class="sx-cut">{low === high || fits ? low : `${low} …`}</span>
        {low !== high && fits && <span>{high}</span>}
      </div>
    );
  }
  if (header.ranges || header.bars.length === 0) return <div class="sx-bars-caption" />;
  const step = width / header.bars.length;
  if (header.bars.every((each) => widthOf(each || "''") * LABEL + 8 <= step)) {
    return (
      <div class="sx-bars-caption sx-bars-labels">
        {header.bars.map((each) => <span key={each} style={{ width: `${step}px` }}>{each || "''"}</span>)}
      </div>
    );
  }
  const top = topOf(header);
  if (top < 0) return <div class="sx-bars-caption" />;
  const others = (header.distinct ?? header.bars.length) - 1;
  return (
    <div class="sx-bars-caption">
      <span class="sx-cut">{header.bars[top] || "''"} {percent(header.counts[top] ?? 0, header.rows)}</span>
      {others > 0 && <span title={plural(others, "other value")}>+{short(others)}</span>}
    </div>
  );
}

function only(counts: number[], at: number): number[] {
  return counts.map((each, i) => (i === at ? each : 0));
}

/** The bar of the most frequent value; -1 where no row is left. */
function topOf({ counts }: Header): number {
  const most = Math.max(...counts);
  return most > 0 ? counts.indexOf(most) : -1;
}
