/** What parts of the page do with their elements: follow a size, drag a handle, fill the screen, keep keys. */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

/** The size of an element in pixels, followed as it changes; 0 before the first layout. Reads a signal. */
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

/** Follow the pointer that was pressed on a handle until it is released; `onMove` gets how far it went, in pixels. */
export function drag(event: PointerEvent, onMove: (x: number, y: number) => void): void {
  if (event.button !== 0) return;
  event.preventDefault();
  const handle = event.currentTarget as HTMLElement;
  const { clientX, clientY } = event;
  handle.setPointerCapture(event.pointerId);
  const follow = (to: PointerEvent): void => onMove(to.clientX - clientX, to.clientY - clientY);
  handle.addEventListener("pointermove", follow);
  const end = (): void => handle.removeEventListener("pointermove", follow);
  handle.addEventListener("lostpointercapture", end, { once: true });
}

export interface FullScreen { isFull: boolean; toggle: () => void }

/** The full screen: the browser's own where the page may use it, else the element covers the window. */
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

const SUPPRESS = "data-lm-suppress-shortcuts";

/** Keep the host's shortcuts away from `ref`, except saving: JupyterLab would take "d d" on a button for "delete the cell".
 *
 * The window hears a key before JupyterLab does.
 *
 * JupyterLab looks for the attribute from what has the focus outwards, but a selector that ends with `:focus` matches
 * at once: the attribute must be on what has the focus.
 */
export function useOwnKeys(ref: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent): void => {
      const [typedInto] = event.composedPath();
      if (!(typedInto instanceof Element) || !ref.current?.contains(typedInto)) return;
      typedInto.toggleAttribute(SUPPRESS, !isSaving(event));
    };
    window.addEventListener("keydown", onKeyDown, true);
    return () => window.removeEventListener("keydown", onKeyDown, true);
  }, [ref]);
}

export function isSaving(event: Pick<KeyboardEvent, "ctrlKey" | "metaKey" | "altKey" | "shiftKey" | "key">): boolean {
  return (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "s";
}
