/** The part of an axis from 0 to `size` that is shown: of the versions of the time bar, and of key space. */

export interface View {
  first: number; // may be a fraction
  last: number; // not included
}

export function whole(size: number): View {
  return { first: 0, last: Math.max(1, size) };
}

export function isWhole(view: View, size: number): boolean {
  return view.first <= 0 && view.last >= size;
}

/** The pixel of a place on the axis. */
export function edge(view: View, width: number, at: number): number {
  return ((at - view.first) / (view.last - view.first)) * width;
}

/** The place on the axis at a pixel. */
export function placeAt(view: View, width: number, x: number): number {
  return view.first + (x / Math.max(1, width)) * (view.last - view.first);
}

/** Show `factor` times as much, though not less than `least`, keeping the place `at` where it is. */
export function zoom(view: View, size: number, factor: number, at: number, least: number): View {
  const span = view.last - view.first;
  const wanted = clamp(span * factor, Math.min(size, least), Math.max(1, size));
  return held(at - ((at - view.first) / span) * wanted, wanted, size);
}

export function pan(view: View, size: number, by: number): View {
  return held(view.first + by, view.last - view.first, size);
}

/** The view, moved as little as needed to show what is from one place to another. */
export function reveal(view: View, size: number, from: number, to: number): View {
  const span = view.last - view.first;
  if (from < view.first || to - from > span) return held(from, span, size);
  return to > view.last ? held(to - span, span, size) : view;
}

/** What a turn of the wheel at a pixel shows: zoomed, or moved by a turn sideways or with Shift; null: the page scrolls. */
export function wheeled(event: WheelEvent, view: View, size: number, x: number, width: number, least: number): View | null {
  const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (isWhole(view, size) && (isSideways || event.deltaY > 0)) return null;
  event.preventDefault();
  if (isSideways) return pan(view, size, ((event.deltaX || event.deltaY) / width) * (view.last - view.first));
  return zoom(view, size, 2 ** (clamp(event.deltaY, -240, 240) / 240), placeAt(view, width, x), least);
}

export function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}

function held(first: number, wanted: number, size: number): View {
  const span = Math.min(wanted, Math.max(1, size));
  const begin = clamp(first, 0, Math.max(0, Math.max(1, size) - span));
  return { first: begin, last: begin + span };
}
