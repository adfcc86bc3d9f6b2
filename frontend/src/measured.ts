/** The width of an element, followed as it changes. */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** Pixels; 0 before the first layout. Reads a signal: the component is drawn again when it changes. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const width = useSignal(0);
  useLayoutEffect(() => {
    const watched = element.current;
    if (watched === null) return;
    width.value = Math.floor(watched.clientWidth);
    const observer = new ResizeObserver(() => (width.value = Math.floor(watched.clientWidth)));
    observer.observe(watched);
    return () => observer.disconnect();
  }, []);
  return width.value;
}
