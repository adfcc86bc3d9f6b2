/** Keys that are typed in the page are the page's: JupyterLab would take "d d" on a button for "delete the cell". */
import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";

const SUPPRESS = "data-lm-suppress-shortcuts";

/** Keep the host's shortcuts away from `ref`, except saving. The window hears a key before JupyterLab does.
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
