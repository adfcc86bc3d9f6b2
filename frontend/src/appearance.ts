/** Whether the page around is dark, seen from what is painted behind an element: each host says it differently. */

type Color = readonly [red: number, green: number, blue: number, alpha: number];

/** `rgb(…)` or `color(srgb …)` as browsers compute it; null for what is not a colour. */
export function parseColor(text: string): Color | null {
  const found = /^(rgba?|color)\((?:srgb )?([^)]*)\)$/.exec(text.trim());
  if (found === null) return null;
  const parts = (found[2] ?? "").split(/[\s,/]+/).filter(Boolean).map(Number);
  const scale = found[1] === "color" ? 255 : 1;
  const [red, green, blue, alpha = 1] = parts;
  if (red === undefined || green === undefined || blue === undefined || parts.some(Number.isNaN)) return null;
  return [red * scale, green * scale, blue * scale, alpha];
}

/** How bright a colour is to the eye, from 0 to 1. */
export function brightness([red, green, blue]: Color): number {
  return (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
}

/** Whether the first ancestor with a background is dark; without one the colour of the text decides. */
export function isDark(el: Element): boolean {
  for (let at: Element | null = el; at !== null; at = parentOf(at)) {
    const color = parseColor(getComputedStyle(at).backgroundColor);
    if (color !== null && color[3] > 0.5) return brightness(color) < 0.5;
  }
  const text = parseColor(getComputedStyle(el).color);
  return text !== null && text[3] > 0 && brightness(text) > 0.5;
}

/** Call `set` now and each time that the host's theme may have changed; the answer ends it. */
export function watchAppearance(el: Element, set: (dark: boolean) => void): () => void {
  const look = (): void => set(isDark(el));
  look();
  const observer = new MutationObserver(look);
  for (const each of [document.documentElement, document.body]) observer.observe(each, { attributes: true });
  observer.observe(document.head, { childList: true }); // JupyterLab loads the style sheet of a theme after it names it
  document.head.addEventListener("load", look, true);
  const media = window.matchMedia?.("(prefers-color-scheme: dark)");
  media?.addEventListener("change", look);
  return () => {
    observer.disconnect();
    document.head.removeEventListener("load", look, true);
    media?.removeEventListener("change", look);
  };
}

/** Also out of a shadow root, which marimo puts a widget into. */
function parentOf(el: Element): Element | null {
  if (el.parentElement !== null) return el.parentElement;
  const root = el.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
}
