/** Lists of any length of which only rows in view are drawn, and where keys lead in them. */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useRef } from "preact/hooks";
import { useSize } from "./elements";

const MORE = 8; // rows above and below those in view
const UNMEASURED = 560; // pixels, until the height is known

export interface ListWindow {
  box: RefObject<HTMLDivElement | null>;
  height: number;
  first: number;
  end: number; // the first that is not drawn
  page: number; // rows of a screen
  onScroll: (event: Event) => void;
  reveal: (index: number) => void;
}

/** What is drawn of `count` rows of `row` pixels, in an element that has `box` as its ref. */
export function useListWindow(count: number, row: number): ListWindow {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const { height } = useSize(box);
  const [first, end] = inView(top.value, height || UNMEASURED, row, count, MORE);
  return {
    box,
    height,
    first,
    end,
    page: Math.max(1, Math.floor(height / row) - 1),
    onScroll: () => (top.value = box.current?.scrollTop ?? 0),
    reveal: (index) => {
      const list = box.current;
      if (list !== null) list.scrollTop = scrollFor(index, list.scrollTop, height, row);
    },
  };
}

/** The first and, not included, the last row in view, with some more on both sides. */
export function inView(top: number, height: number, row: number, count: number, more: number): [number, number] {
  const first = Math.max(0, Math.floor(top / row) - more);
  return [Math.min(first, count), Math.min(count, Math.ceil((top + height) / row) + more)];
}

/** Where to scroll so that a row is in view; the same place when it is. */
export function scrollFor(index: number, top: number, height: number, row: number): number {
  if (index * row < top) return index * row;
  if ((index + 1) * row > top + height) return (index + 1) * row - height;
  return top;
}

/** The row that a key leads to, from none (-1) too; null for other keys and in a list without rows. */
export function rowFor(key: string, at: number, count: number, page: number): number | null {
  const steps: Record<string, number> = {
    ArrowDown: at + 1,
    ArrowUp: at - 1,
    PageDown: at + page,
    PageUp: at - page,
    Home: 0,
    End: count - 1,
  };
  const to = steps[key];
  return to === undefined || count === 0 ? null : Math.max(0, Math.min(count - 1, to));
}
