/** Where versions are on the time bar: an axis on which each version has a slot of equal width, in order of time.
 *
 * With 10,000 versions several share a bin, so that what is drawn depends on the width in pixels and not on the number of
 * versions.
 */
import { clamp, edge, placeAt, type View } from "./axis_view";
import { clock, day } from "./format";

/** Versions from `from` up to, not including, `to`. */
export interface Bin { from: number; to: number }

export interface When {
  x: number; // its middle
  text: string;
}

export const LEAST_SLOTS = 6; // as far as one can zoom in
const LETTER = 7; // width of a character of 12 px, on the safe side
const HALF_MARK = 5; // a mark that would be cut by the edge is not drawn
const NUMBER_GAP = 10;
const WHEN_GAP = 28;

export function middle(view: View, width: number, index: number): number {
  return edge(view, width, index + 0.5);
}

export function indexAt(view: View, width: number, x: number, count: number): number {
  return clamp(Math.floor(placeAt(view, width, x)), 0, count - 1);
}

/** How many versions share a bin that is at least `least` pixels wide: a power of two, so that bins stay while one pans. */
export function binSize(view: View, width: number, least: number): number {
  const slot = width / (view.last - view.first);
  let size = 1;
  while (slot * size < least && size < view.last - view.first) size *= 2;
  return size;
}

/** The bins that are in view, also those that are partly. */
export function bins(view: View, width: number, least: number, count: number): Bin[] {
  const size = binSize(view, width, least);
  const found: Bin[] = [];
  for (let from = Math.floor(Math.max(0, view.first) / size) * size; from < Math.min(view.last, count); from += size) {
    found.push({ from, to: Math.min(from + size, count) });
  }
  return found;
}

/** As `bins`, with the place of a mark in each; what is left over at the end shares the mark before it. */
export function marked(view: View, width: number, least: number, count: number): (Bin & { x: number })[] {
  const all = bins(view, width, least, count);
  const last = all.at(-1);
  const earlier = all.at(-2);
  const room = (bin: Bin): number => edge(view, width, bin.to) - edge(view, width, bin.from);
  if (last !== undefined && earlier !== undefined && room(last) < least) {
    all.splice(-2, 2, { from: earlier.from, to: last.to });
  }
  return all
    .map((bin) => ({ ...bin, x: (edge(view, width, bin.from) + edge(view, width, bin.to)) / 2 }))
    .filter(({ x }) => x > HALF_MARK && x < width - HALF_MARK);
}

/** The outline of rows over time, as two paths: the most and the least of each bin of a pixel or more; equal for single versions. */
export function areas(rows: readonly number[], view: View, width: number, height: number): { most: string; least: string } {
  const top = Math.max(1, maximum(rows));
  const parts = bins(view, width, 1, rows.length);
  return {
    most: outline(parts, view, width, height, (bin) => rangeOf(rows, bin)[1] / top),
    least: outline(parts, view, width, height, (bin) => rangeOf(rows, bin)[0] / top),
  };
}

function outline(parts: Bin[], view: View, width: number, height: number, share: (bin: Bin) => number): string {
  const steps = parts.map((bin) => {
    const y = round(height - share(bin) * height);
    return `V${y}H${round(Math.min(width, edge(view, width, bin.to)))}`;
  });
  const start = round(Math.max(0, edge(view, width, parts[0]?.from ?? 0)));
  return `M${start} ${height}${steps.join("")}V${height}Z`;
}

function rangeOf(rows: readonly number[], bin: Bin): [number, number] {
  let [least, most] = [Infinity, 0];
  for (let i = bin.from; i < bin.to; i++) {
    const value = rows[i] ?? 0;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [Math.min(least, most), most];
}

/** Which versions get their number under the axis, and where its middle is: round numbers where not all have room. */
export function numbered(view: View, width: number, numbers: readonly number[]): { index: number; x: number }[] {
  const room = String(numbers.at(-1) ?? 0).length * LETTER;
  const step = niceStep(((room + NUMBER_GAP) * (view.last - view.first)) / Math.max(1, width));
  const found: { index: number; x: number }[] = [];
  for (let index = Math.max(0, Math.floor(view.first)); index < Math.min(view.last, numbers.length); index++) {
    const x = middle(view, width, index);
    const isOne = (numbers[index] ?? 0) % step === 0 && x >= 0 && x <= width;
    const isFree = x - (found.at(-1)?.x ?? -Infinity) >= room + NUMBER_GAP;
    if (isOne && isFree) found.push({ index, x: clamp(x, room / 2, width - room / 2) });
  }
  return found;
}

/** The least of 1, 2, 5, 10, 20, 50, … that is not below `value`. */
function niceStep(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value) ?? 1;
}

/** Dates where a day begins, and times between them, as far as they have room: days first, from the left. */
export function whens(view: View, width: number, committed: readonly number[]): When[] {
  const parts = bins(view, width, 4, committed.length);
  const found: (When & { half: number })[] = [];
  const put = (index: number, text: string): boolean => {
    const half = (text.length * LETTER) / 2;
    const wanted = middle(view, width, index);
    const x = clamp(wanted, half, width - half);
    const isFar = Math.abs(x - wanted) > half; // of a bin that begins out of view
    if (isFar || found.some((each) => Math.abs(each.x - x) < each.half + half + WHEN_GAP)) return false;
    found.push({ x, text, half });
    return true;
  };
  let [lastDay, lastYear] = ["", -1]; // the year is written where it differs from that of the last text
  let lastClock = "";
  const later: number[] = []; // where the time of day is another than before
  for (const { from } of parts) {
    const at = committed[from] ?? 0;
    const year = new Date(at).getUTCFullYear();
    const today = day(at);
    if (today === lastDay && clock(at) !== lastClock) later.push(from);
    if (today !== lastDay && put(from, year === lastYear ? day(at, at) : today)) lastYear = year;
    [lastDay, lastClock] = [today, clock(at)];
  }
  for (const index of later) put(index, clock(committed[index] ?? 0));
  return found.map(({ x, text }) => ({ x, text })).sort((a, b) => a.x - b.x);
}

/** Where a key moves a handle; null for a key that does not. */
export function moved(key: string, index: number, count: number, page: number): number | null {
  const steps: Record<string, number> = {
    ArrowLeft: index - 1,
    ArrowDown: index - 1,
    ArrowRight: index + 1,
    ArrowUp: index + 1,
    PageDown: index - page,
    PageUp: index + page,
    Home: 0,
    End: count - 1,
  };
  const to = steps[key];
  return to === undefined ? null : clamp(to, 0, count - 1);
}

function maximum(values: readonly number[]): number {
  return values.reduce((most, each) => Math.max(most, each), 0);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
