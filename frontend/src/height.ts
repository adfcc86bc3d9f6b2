/** The height of the page: its limits, and how keys and the pointer change it. */
export const HEIGHT = { first: 560, least: 360, most: 2000 };
const STEP = 16;
const AROUND = 170; // toolbar, header and footer of an answer

/** The height for an answer of so many rows: no emptiness below a few, and room for a chart. */
export function heightOf(rows: number, row: number): number {
  return Math.min(HEIGHT.first, within(AROUND + rows * row));
}

/** The height that a key makes; null for other keys. */
export function heightFor(key: string, height: number): number | null {
  const steps: Record<string, number> = {
    ArrowUp: height - STEP,
    ArrowDown: height + STEP,
    PageUp: height - 10 * STEP,
    PageDown: height + 10 * STEP,
    Home: HEIGHT.least,
    End: HEIGHT.most,
  };
  const to = steps[key];
  return to === undefined ? null : within(to);
}

/** Follow the pointer until it is released. */
export function dragHeight(event: PointerEvent, height: number, onChange: (height: number) => void): void {
  if (event.button !== 0) return;
  const handle = event.currentTarget as HTMLElement;
  const start = event.clientY;
  handle.setPointerCapture(event.pointerId);
  const follow = (move: PointerEvent): void => onChange(within(Math.round(height + move.clientY - start)));
  const end = (): void => {
    handle.removeEventListener("pointermove", follow);
    handle.removeEventListener("pointerup", end);
    handle.removeEventListener("pointercancel", end);
  };
  handle.addEventListener("pointermove", follow);
  handle.addEventListener("pointerup", end);
  handle.addEventListener("pointercancel", end);
}

function within(height: number): number {
  return Math.max(HEIGHT.least, Math.min(HEIGHT.most, height));
}
