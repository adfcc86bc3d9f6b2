/** The full screen: the browser's own where the page may use it, else the element covers the window. */
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

export interface FullScreen { isFull: boolean; toggle: () => void }

export function useFullScreen(ref: RefObject<HTMLElement | null>): FullScreen {
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    const onChange = (): void => setFull(isShown(ref.current));
    document.addEventListener("fullscreenchange", onChange);
    return () => document.removeEventListener("fullscreenchange", onChange);
  }, [ref]);
  useEffect(() => {
    const covers = isFull && !isShown(ref.current);
    if (!covers) return undefined;
    const onKeyDown = (event: KeyboardEvent): void => {
      if (event.key === "Escape" && !event.defaultPrevented) setFull(false);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [isFull, ref]);
  const toggle = (): void => {
    const el = ref.current;
    if (el === null) return;
    if (isShown(el)) void document.exitFullscreen();
    else if (isFull) setFull(false);
    else if (document.fullscreenEnabled) el.requestFullscreen().catch(() => setFull(true));
    else setFull(true);
  };
  return { isFull, toggle };
}

/** Whether the browser shows the element full screen; inside a shadow root the document names the host. */
function isShown(el: HTMLElement | null): boolean {
  if (el === null) return false;
  const root = el.getRootNode() as Document | ShadowRoot;
  return root.fullscreenElement === el;
}
