/** A small panel over the page: it closes by Escape, by a click elsewhere, and when the focus leaves it. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

const LEAST = 160; // px

interface PopoverParts {
  label: string;
  class?: string;
  style?: Record<string, string>;
  opener: HTMLElement | null; // it closes the panel by itself
  onClose: (refocus: boolean) => void; // whether the focus goes back to what opened it
  children: ComponentChildren;
}

export function Popover({ label, class: more, style, opener, onClose, children }: PopoverParts) {
  const panel = useRef<HTMLDivElement>(null);
  const close = useRef(onClose);
  close.current = onClose;
  useLayoutEffect(() => {
    const element = panel.current as HTMLDivElement;
    const edge = element.closest(".sx")?.getBoundingClientRect().bottom ?? window.innerHeight;
    const room = edge - element.getBoundingClientRect().top - 8;
    element.style.maxHeight = `${Math.max(LEAST, room)}px`; // it scrolls inside
    element.querySelector<HTMLElement>("input, button")?.focus({ preventScroll: true });
    const root = element.getRootNode();
    const onPointer = (event: Event): void => {
      const path = event.composedPath();
      if (!path.includes(element) && (opener === null || !path.includes(opener))) close.current(false);
    };
    root.addEventListener("pointerdown", onPointer, true);
    return () => root.removeEventListener("pointerdown", onPointer, true);
  }, []);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      event.preventDefault();
      onClose(true);
    }
    event.stopPropagation(); // the notebook has keys of its own
  };
  const onFocusOut = (event: FocusEvent): void => {
    const to = event.relatedTarget as Node | null;
    if (to !== null && to !== opener && panel.current?.contains(to) === false) onClose(false);
  };
  return (
    <div
      ref={panel}
      class={`sx-popover${more ? ` ${more}` : ""}`}
      role="dialog"
      aria-label={label}
      style={style}
      onKeyDown={onKeyDown}
      onFocusOut={onFocusOut}
    >
      {children}
    </div>
  );
}
