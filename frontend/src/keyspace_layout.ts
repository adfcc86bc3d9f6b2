/** Where leaves and files are in the picture of key space: a strip of leaves, layers of files, binned to pixels. */
import { edge, type View } from "./axis_view";
import type { KeySpaceAnswer } from "./protocol";
import { lastAtMost } from "./sorted_numbers";

export const SIZE = 1; // of key space, as an axis
const LEAST_SHARE = 0.02; // of the mean leaf: an empty one stays visible
const LEAST_LEAVES = 2; // shown at the strongest zoom

/** How many rows a leaf has against the median of those with rows. */
export const HEATS = ["empty", "small", "usual", "large", "hot"] as const;
export type Heat = (typeof HEATS)[number];
export const HEAT_LABELS: Record<Heat, string> = {
  empty: "Empty",
  small: "Under ½×",
  usual: "½ to 1½×",
  large: "1½ to 3×",
  hot: "Hot: over 3×",
};

/** Boundaries of `rows.length` leaves from 0 to 1: to the scale of rows, or all equal. */
export function boundaries(rows: readonly number[], equal: boolean): Float64Array {
  const total = rows.reduce((sum, each) => sum + each, 0);
  const least = equal || total === 0 ? 1 : (LEAST_SHARE * total) / rows.length;
  const edges = new Float64Array(rows.length + 1);
  for (let leaf = 0; leaf < rows.length; leaf++) {
    edges[leaf + 1] = edges[leaf]! + (equal ? 1 : Math.max(rows[leaf]!, least));
  }
  const width = edges[rows.length]! || 1;
  for (let at = 0; at <= rows.length; at++) edges[at] = edges[at]! / width;
  return edges;
}

export function leafAt(edges: Float64Array, place: number): number {
  return Math.max(0, Math.min(edges.length - 2, lastAtMost(edges, place)));
}

export function median(values: readonly number[]): number {
  const sorted = values.filter((each) => each > 0).sort((a, b) => a - b);
  if (sorted.length === 0) return 0;
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function heatOf(rows: number, usual: number): Heat {
  if (rows === 0) return "empty";
  if (rows > 3 * usual) return "hot";
  if (rows > 1.5 * usual) return "large";
  return rows < usual / 2 ? "small" : "usual";
}

/** A piece of the strip: one leaf, or several that share a pixel. */
export interface Piece {
  x: number;
  width: number;
  first: number;
  last: number;
  heat: Heat; // the hottest of its leaves
}

/** The strip for `width` pixels: never more pieces than pixels, so that 50,000 leaves draw at once. */
export function strip(edges: Float64Array, heats: readonly Heat[], view: View, width: number): Piece[] {
  const pieces: Piece[] = [];
  const last = leafAt(edges, view.last);
  for (let leaf = leafAt(edges, view.first); leaf <= last; leaf++) {
    const x = edge(view, width, edges[leaf]!);
    const size = edge(view, width, edges[leaf + 1]!) - x;
    const open = pieces.at(-1);
    if (open !== undefined && open.width < 1) {
      open.width += size;
      open.last = leaf;
      if (HEATS.indexOf(heats[leaf]!) > HEATS.indexOf(open.heat)) open.heat = heats[leaf]!;
    } else if (size > 0 && x < width) pieces.push({ x, width: size, first: leaf, last: leaf, heat: heats[leaf]! });
  }
  return pieces;
}

type Files = KeySpaceAnswer["files"];

/** A file as a bar over the leaves that it touches. */
export interface Bar {
  file: number;
  x: number;
  width: number;
  lane: number; // 0 is next to the strip
}

/** Files as bars where they fit; else how many there are at each pixel. */
export type Layers = { bars: Bar[]; lanes: number; shown: number } | { counts: number[]; most: number; shown: number };

const LEAST_WIDTH = 3;
const GAP = 1;

/** Put the files of a view into at most `mostLanes` lanes; count them by pixel when there are more. */
export function layers(edges: Float64Array, files: Files, view: View, width: number, mostLanes: number): Layers {
  const shown: { file: number; x: number; end: number }[] = [];
  for (let file = 0; file < files.first.length; file++) {
    const x = edge(view, width, edges[files.first[file]!]!);
    const end = edge(view, width, edges[files.last[file]! + 1]!);
    if (end > 0 && x < width) shown.push({ file, x: Math.max(0, x), end: Math.min(width, end) });
  }
  return packed(shown, mostLanes, width) ?? counted(shown, width);
}

function packed(shown: { file: number; x: number; end: number }[], mostLanes: number, width: number): Layers | null {
  if (shown.length > (mostLanes * width) / (LEAST_WIDTH + GAP)) return null; // they cannot fit
  const ends: number[] = []; // of each lane
  const bars: Bar[] = [];
  shown.sort((a, b) => a.x - b.x || b.end - a.end || a.file - b.file);
  for (const { file, x, end } of shown) {
    const lane = ends.findIndex((each) => each + GAP <= x + 1e-6);
    const taken = lane === -1 ? ends.length : lane;
    if (taken >= mostLanes) return null;
    const wide = Math.max(LEAST_WIDTH, end - x - GAP);
    ends[taken] = x + wide;
    bars.push({ file, x, width: wide, lane: taken });
  }
  return { bars, lanes: ends.length, shown: shown.length };
}

function counted(shown: { x: number; end: number }[], width: number): Layers {
  const steps = new Float64Array(Math.ceil(width) + 1);
  for (const { x, end } of shown) {
    const first = Math.min(Math.floor(x), steps.length - 2);
    const after = Math.min(Math.max(first + 1, Math.floor(end)), steps.length - 1);
    steps[first]! += 1;
    steps[after]! -= 1;
  }
  const counts: number[] = [];
  let sum = 0;
  for (let pixel = 0; pixel < steps.length - 1; pixel++) {
    sum += steps[pixel]!;
    counts.push(sum);
  }
  return { counts, most: counts.reduce((most, each) => Math.max(most, each), 0), shown: shown.length };
}

/** What a compaction would merge, as a frame over its leaf. Frames that are a few pixels apart are joined. */
export interface Frame {
  x: number;
  width: number;
  jobs: number;
  files: number;
  bytes: number;
}

export function frames(edges: Float64Array, jobs: KeySpaceAnswer["jobs"], view: View, width: number): Frame[] {
  const made: Frame[] = [];
  for (const { leaf, files, bytes } of [...jobs].sort((a, b) => a.leaf - b.leaf)) {
    const x = Math.max(0, edge(view, width, edges[leaf]!));
    const end = Math.min(width, edge(view, width, edges[leaf + 1]!));
    if (end <= 0 || x >= width) continue;
    const before = made.at(-1);
    if (before !== undefined && x - before.x < 8) {
      before.width = Math.max(before.width, end - before.x);
      before.jobs += 1;
      before.files += files;
      before.bytes += bytes;
    } else made.push({ x, width: Math.max(LEAST_WIDTH, end - x), jobs: 1, files, bytes });
  }
  return made;
}

/** How little of key space can be shown. */
export function leastView(leaves: number): number {
  return LEAST_LEAVES / Math.max(1, leaves) / 8;
}

/** Leaves whose range or id has a text, in key order or those with the most rows first. */
export function listed(leaves: KeySpaceAnswer["leaves"], search: string, byRows: boolean): number[] {
  const word = search.trim().toLowerCase();
  const found = leaves.id.map((_, leaf) => leaf);
  const kept = word
    ? found.filter((leaf) => `${leaves.range[leaf]} ${leaves.id[leaf]}`.toLowerCase().includes(word))
    : found;
  return byRows ? kept.sort((a, b) => leaves.rows[b]! - leaves.rows[a]! || a - b) : kept;
}
