/** The height of the page: its limits, and how keys change it. */
export const HEIGHT = { first: 640, least: 360, most: 2000 };
const STEP = 16;
const AROUND = 170; // toolbar, header and footer of an answer

/** The height for an answer of so many rows: no emptiness below a few, and room for a chart. */
export function heightOf(rows: number, row: number): number {
  return Math.min(HEIGHT.first, within(AROUND + rows * row));
}

/** The height that an arrow key makes; null for other keys. */
export function heightFor(key: string, height: number): number | null {
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  return within(key === "ArrowUp" ? height - STEP : height + STEP);
}

export function within(height: number): number {
  return Math.round(Math.max(HEIGHT.least, Math.min(HEIGHT.most, height)));
}
