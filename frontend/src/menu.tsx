/** A button that opens a menu of actions. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./icons";
import "./menu.css";
import { usePressOutside } from "./popover";

export interface Action {
  text: string;
  icon?: IconName;
  disabled?: boolean;
  note?: string; // why it is disabled
  run: () => void;
}

export function Menu(parts: { label: string; actions: Action[]; class?: string; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    if (isOpen) items(box.current)[0]?.focus();
  }, [isOpen]);
  usePressOutside(box, isOpen, () => setOpen(false));
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!isOpen) return;
    event.stopPropagation(); // the keys of what is around are not meant
    if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      close();
      return;
    }
    const all = items(box.current);
    const root = box.current?.getRootNode() as Document | ShadowRoot;
    const to = stepTo(event.key, all.indexOf(root.activeElement as HTMLElement), all.length);
    if (to === null) return;
    event.preventDefault();
    all[to]?.focus();
  };
  return (
    <div class={`sx-menu ${parts.class ?? ""}`} ref={box} onKeyDown={onKeyDown}>
      <button
        ref={button} type="button" class="sx-menu-button" aria-label={parts.label} aria-haspopup="menu"
        aria-expanded={isOpen} aria-controls={isOpen ? id : undefined} title={parts.label}
        onClick={() => setOpen(!isOpen)}
      >
        {parts.children}
      </button>
      {isOpen && (
        <div class="sx-menu-list sx-raised" role="menu" id={id} aria-label={parts.label}>
          {parts.actions.map((action) => (
            <button
              key={action.text} type="button" role="menuitem" tabIndex={-1} class="sx-menu-item"
              aria-disabled={action.disabled === true} title={action.disabled ? action.note : undefined}
              onClick={() => {
                if (action.disabled) return;
                close();
                action.run();
              }}
            >
              {action.icon && <Icon name={action.icon} />}
              {action.text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

/** Where a key goes among things in a row or a column, round and round; null for other keys. */
export function stepTo(key: string, at: number, count: number): number | null {
  const [next, before] = [at + 1, at < 0 ? -1 : at - 1];
  const steps: Record<string, number> = {
    ArrowDown: next, ArrowRight: next, ArrowUp: before, ArrowLeft: before, Home: 0, End: count - 1,
  };
  const to = steps[key];
  return to === undefined || count === 0 ? null : (to + count) % count;
}

function items(box: HTMLElement | null): HTMLElement[] {
  return [...(box?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
}
