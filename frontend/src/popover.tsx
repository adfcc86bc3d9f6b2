/** A small panel over the page: it closes by Escape, by a click elsewhere, and when the focus leaves it. */
import type { ButtonHTMLAttributes, ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

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
  useLayoutEffect(() => {
    const element = panel.current as HTMLDivElement;
    const edge = element.closest(".sx")?.getBoundingClientRect().bottom ?? window.innerHeight;
    const room = edge - element.getBoundingClientRect().top - 8;
    element.style.maxHeight = `${Math.max(LEAST, room)}px`; // it scrolls inside
    element.querySelector<HTMLElement>("input, button")?.focus({ preventScroll: true });
  }, []);
  usePressOutside(panel, true, (path) => {
    if (opener === null || !path.includes(opener)) onClose(false);
  });
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
      ref={panel} class={`sx-popover sx-raised${more ? ` ${more}` : ""}`} role="dialog" aria-label={label} style={style}
      onKeyDown={onKeyDown} onFocusOut={onFocusOut}
    >
      {children}
    </div>
  );
}

interface PopoverButtonParts extends ButtonHTMLAttributes<HTMLButtonElement> {
  label: string; // of the panel
  panel: string; // its class
  face: ComponentChildren; // what the button says
  children: (close: () => void) => ComponentChildren;
}

/** A button and the panel that it opens. */
export function PopoverButton({ label, panel, face, children, ...rest }: PopoverButtonParts) {
  const [isOpen, setOpen] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const close = (refocus: boolean): void => {
    setOpen(false);
    if (refocus) opener.current?.focus();
  };
  return (
    <>
      <button
        type="button" {...rest} ref={opener} aria-haspopup="dialog" aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {face}
      </button>
      {isOpen && (
        <Popover label={label} class={panel} opener={opener.current} onClose={close}>
          {children(() => close(true))}
        </Popover>
      )}
    </>
  );
}

/** Call `then` when a pointer is pressed outside of an element, with what it was pressed on. */
export function usePressOutside(
  element: RefObject<HTMLElement | null>,
  isActive: boolean,
  then: (path: EventTarget[]) => void,
): void {
  const newest = useRef(then);
  newest.current = then;
  useEffect(() => {
    if (!isActive) return undefined;
    const onPress = (event: PointerEvent): void => {
      const path = event.composedPath();
      if (!path.includes(element.current as EventTarget)) newest.current(path);
    };
    document.addEventListener("pointerdown", onPress, true);
    return () => document.removeEventListener("pointerdown", onPress, true);
  }, [isActive]);
}
