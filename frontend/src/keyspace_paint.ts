/** Draws the picture of key space on a canvas, in colours of the page. */
import { plural } from "./format";
import type { Bar, Frame, Heat, Layers, Piece } from "./keyspace_layout";

export const LANE = 8; // pixels from a lane of files to the next
export const STRIP = 40; // height of the strip of leaves
export const PROFILE = 80; // height of the counts of files, where they are too many for bars
export const CAPTIONS = 20; // above, for what a compaction would merge
const FILE = 6; // height of a file

/** Colours as the browser resolved them: a canvas does not know the tokens of the page. */
export type Inks = Record<Heat | "files" | "frame" | "line" | "text", string>;

export const INK_NAMES: (keyof Inks)[] = [
  "empty", "small", "usual", "large", "hot", "files", "frame", "line", "text",
];

export interface Picture {
  pieces: Piece[];
  layers: Layers;
  frames: Frame[];
  floor: number; // pixels above the strip
  captions: (string | null)[]; // of each frame, where it fits
}

/** The height that files take; the same for all views of a table, so that nothing jumps while zooming. */
export function filesHeight(mostLanes: number, layers: Layers): number {
  return "bars" in layers ? Math.max(2, Math.min(mostLanes, layers.lanes)) * LANE : PROFILE;
}

export function paint(canvas: HTMLCanvasElement, picture: Picture, inks: Inks, width: number, font: string): void {
  const { floor } = picture;
  const height = floor + STRIP;
  const sharp = globalThis.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * sharp)) canvas.width = Math.round(width * sharp);
  if (canvas.height !== Math.round(height * sharp)) canvas.height = Math.round(height * sharp);
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  pen.setTransform(sharp, 0, 0, sharp, 0, 0);
  pen.clearRect(0, 0, width, height);
  if ("bars" in picture.layers) paintBars(pen, picture.layers.bars, inks, floor);
  else paintCounts(pen, picture.layers, inks, floor, font);
  paintStrip(pen, picture.pieces, inks, floor);
  paintFrames(pen, picture, inks, font);
}

/** Where a bar of a file is; the pointer asks the same. */
export function barBox(bar: Bar, floor: number): { x: number; y: number; width: number; height: number } {
  return { x: bar.x, y: floor - bar.lane * LANE - 2 - FILE, width: bar.width, height: FILE };
}

function paintBars(pen: CanvasRenderingContext2D, bars: Bar[], inks: Inks, floor: number): void {
  pen.fillStyle = inks.line;
  for (const bar of bars) {
    const box = barBox(bar, floor);
    pen.fillRect(box.x, box.y, box.width, box.height);
  }
}

function paintCounts(
  pen: CanvasRenderingContext2D,
  layers: Extract<Layers, { counts: number[] }>,
  inks: Inks,
  floor: number,
  font: string,
): void {
  const scale = (PROFILE - CAPTIONS) / Math.max(1, layers.most);
  layers.counts.forEach((count, x) => {
    const height = Math.max(2, count * scale);
    pen.fillStyle = inks.files;
    if (count > 0) pen.fillRect(x, floor - 2 - height, 1, height);
    pen.fillStyle = inks.line;
    if (count > 0) pen.fillRect(x, floor - 2 - height, 1, 1.5);
  });
  pen.font = font;
  pen.fillStyle = inks.text;
  pen.textBaseline = "top";
  pen.fillText(plural(layers.most, "file"), 2, floor - PROFILE + 3);
  pen.textBaseline = "bottom";
  pen.fillText("0", 2, floor - 3);
}

function paintStrip(pen: CanvasRenderingContext2D, pieces: Piece[], inks: Inks, top: number): void {
  for (const piece of pieces) {
    const gap = piece.width > 4 ? 1 : 0;
    pen.fillStyle = inks[piece.heat];
    const [x, end] = [Math.round(piece.x), Math.round(piece.x + piece.width)]; // whole pixels: no blur
    pen.fillRect(x, top, Math.max(1, end - x - gap), STRIP);
  }
  pen.fillStyle = inks.line;
  for (const piece of pieces) if (piece.heat === "empty" && piece.width > 3) hatch(pen, piece, inks, top);
}

/** An empty leaf is an outline, so that it is told from a small one without its colour. */
function hatch(pen: CanvasRenderingContext2D, piece: Piece, inks: Inks, top: number): void {
  pen.strokeStyle = inks.line;
  pen.lineWidth = 1;
  pen.strokeRect(piece.x + 0.5, top + 0.5, Math.max(1, piece.width - 2), STRIP - 1);
}

/** A bracket above what a compaction would merge. */
function paintFrames(pen: CanvasRenderingContext2D, picture: Picture, inks: Inks, font: string): void {
  pen.fillStyle = inks.frame;
  pen.font = font;
  pen.textBaseline = "middle";
  picture.frames.forEach((frame, index) => {
    pen.fillRect(frame.x, CAPTIONS - 3, Math.max(3, frame.width - 4), 3);
    const caption = picture.captions[index];
    if (caption) pen.fillText(caption, frame.x, CAPTIONS / 2 - 2);
  });
}

/** The captions of frames: the longest that have room for all, else the shortest where they have room. */
export function captionsOf(
  frames: readonly Frame[],
  texts: readonly string[][],
  width: number,
  measure: (text: string) => number,
): (string | null)[] {
  const fitting = (length: number): (string | null)[] =>
    frames.map((frame, index) => {
      const end = index + 1 < frames.length ? frames[index + 1]!.x - 8 : width;
      const text = texts[index]!.at(length)!;
      return frame.x + measure(text) <= end ? text : null;
    });
  return [0, 1].map(fitting).find((all) => all.every((each) => each !== null)) ?? fitting(-1);
}
