/** The size of an element, followed as it changes. */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

/** Pixels; 0 before the first layout. Reads a signal: the component is drawn again when it changes. */
export function useSize(element: RefObject<HTMLElement | null>): { width: number; height: number } {
  const size = useSignal({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const watched = element.current;
    if (watched === null) return;
    const look = (): void => {
      const now = { width: Math.floor(watched.clientWidth), height: Math.floor(watched.clientHeight) };
      const old = size.peek();
      if (now.width !== old.width || now.height !== old.height) size.value = now;
    };
    look();
    const observer = new ResizeObserver(look);
    observer.observe(watched);
    return () => observer.disconnect();
  }, []);
  return size.value;
}
