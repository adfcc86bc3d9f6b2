/** Which rows and columns of a large grid are seen, and how far it is scrolled. Pure.
 *
 * Browsers clip elements at about 15 million px, so a grid of 10 million rows cannot be as high as its rows. Above
 * `MOST_SPACE` the scrolled space is lower than the content. Small moves (wheel, touch) move the content by as many px;
 * large ones (the thumb of the scroll bar) go to the place in proportion. At both ends of the space an edge of it is to
 * scale, so that the first and last rows are reached like in a short table.
 */

import { lastAtMost } from "../sorted_numbers";

export const MOST_SPACE = 8_000_000;
const EDGE = 100_000;

/** The height of all rows, of the element that is scrolled, and of the window onto it, in px. */
export interface Scale { content: number; space: number; view: number }

/** Where the element is scrolled to, and which px of the content is at the top of the window. */
export interface Scrolled { top: number; at: number }

export interface Span {
  first: number;
  end: number; // the first that is not in it
}

export function scaleOf(content: number, view: number): Scale {
  return { content, space: Math.min(content, MOST_SPACE), view };
}

/** The px of the content for a place of the scroll bar. */
export function contentAt(scale: Scale, top: number): number {
  const [mostTop, mostAt] = ends(scale);
  if (mostTop === mostAt) return clamp(top, mostAt);
  if (top <= EDGE) return Math.max(0, top);
  if (top >= mostTop - EDGE) return Math.min(mostAt, mostAt - (mostTop - top));
  return EDGE + ((top - EDGE) * (mostAt - 2 * EDGE)) / (mostTop - 2 * EDGE);
}

/** The place of the scroll bar for a px of the content. */
export function spaceAt(scale: Scale, at: number): number {
  const [mostTop, mostAt] = ends(scale);
  if (mostTop === mostAt) return clamp(at, mostAt);
  if (at <= EDGE) return Math.max(0, at);
  if (at >= mostAt - EDGE) return Math.min(mostTop, mostTop - (mostAt - at));
  return EDGE + ((at - EDGE) * (mostTop - 2 * EDGE)) / (mostAt - 2 * EDGE);
}

/** What is seen after the element was scrolled to `top`. */
export function scrolled(scale: Scale, before: Scrolled, top: number): Scrolled {
  if (scale.content === scale.space) return { top, at: contentAt(scale, top) };
  const moved = top - before.top;
  const isSmall = Math.abs(moved) <= Math.max(2_000, 4 * scale.view);
  return { top, at: isSmall ? clamp(before.at + moved, ends(scale)[1]) : contentAt(scale, top) };
}

/** The same rows with the scroll bar at their place: where to scroll the element to once it rests. */
export function settled(scale: Scale, now: Scrolled): Scrolled {
  const at = clamp(now.at, ends(scale)[1]);
  return { top: spaceAt(scale, at), at };
}

/** Whether the scroll bar is at an end and the content is not: the element must be scrolled at once. */
export function isStuck(scale: Scale, now: Scrolled): boolean {
  const [mostTop, mostAt] = ends(scale);
  return (now.top <= 0 && now.at > 0.5) || (now.top >= mostTop - 0.5 && now.at < mostAt - 0.5);
}

/** The least move of the content that brings a row into the window. */
export function revealed(scale: Scale, at: number, begin: number, size: number): number {
  if (begin < at) return clamp(begin, ends(scale)[1]);
  if (begin + size > at + scale.view) return clamp(begin + size - scale.view, ends(scale)[1]);
  return at;
}

/** The rows of a window, with `more` on both sides. */
export function rowsSeen(scale: Scale, at: number, rowHeight: number, rows: number, more = 0): Span {
  const first = Math.max(0, Math.floor(at / rowHeight) - more);
  const end = Math.min(rows, Math.ceil((at + scale.view) / rowHeight) + more);
  return { first: Math.min(first, end), end };
}

/** Where each column begins, and after the last one where it ends. */
export function offsetsOf(widths: number[]): number[] {
  const offsets = [0];
  for (const width of widths) offsets.push((offsets.at(-1) as number) + width);
  return offsets;
}

/** The columns between two px, with `more` on both sides. */
export function columnsSeen(offsets: number[], left: number, right: number, more = 0): Span {
  const columns = offsets.length - 1;
  const first = Math.max(0, lastAtMost(offsets, left) - more);
  const end = Math.min(columns, lastAtMost(offsets, Math.max(left, right - 0.01)) + 1 + more);
  return { first: Math.min(first, columns), end: Math.max(end, Math.min(first, columns)) };
}

/** The blocks that have some rows: their numbers. */
export function blocksOf(rows: Span, size: number): number[] {
  if (rows.end <= rows.first) return [];
  const [first, last] = [Math.floor(rows.first / size), Math.floor((rows.end - 1) / size)];
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

/** What a block is kept by: some rows of some columns. */
export function blockKey(block: number, chunk: number): string {
  return `${block}:${chunk}`;
}

function ends({ content, space, view }: Scale): [number, number] {
  return [Math.max(0, space - view), Math.max(0, content - view)];
}

function clamp(value: number, most: number): number {
  return Math.min(Math.max(0, value), most);
}
