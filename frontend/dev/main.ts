/** The dev page: the explorer over sample data. The address chooses: `?theme=dark&tab=sql&latency=300&mode=answer`. */
import front from "../src/index";
import type { Tab } from "../src/protocol";
import { SampleModel, type SampleOptions } from "./sample";

const asked = new URLSearchParams(location.search);

function number(name: string): number | undefined {
  const given = asked.get(name);
  return given === null ? undefined : Number(given);
}

/** Set what JupyterLab sets on its page. */
function dress(theme: string): void {
  const names: Record<string, [string, boolean]> = {
    light: ["JupyterLab Light", true],
    dark: ["JupyterLab Dark", false],
    hc: ["JupyterLab Dark High Contrast", false],
  };
  const [name, isLight] = names[theme] ?? ["", true];
  if (!name) return;
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = `theme-${theme === "hc" ? "dark-high-contrast" : theme}.css`;
  document.head.prepend(sheet);
  document.body.dataset.jpThemeLight = String(isLight);
  document.body.dataset.jpThemeName = name;
}

const options: SampleOptions = {};
for (const name of ["latency", "version", "before", "tables", "versions", "leaves", "files", "columns"] as const) {
  const given = number(name);
  if (given !== undefined) options[name] = given;
}
for (const name of ["table", "statement", "mode", "fail"] as const) {
  const given = asked.get(name);
  if (given !== null) Object.assign(options, { [name]: given });
}
if (asked.has("tab")) options.tab = asked.get("tab") as Tab;
if (asked.has("cold")) options.cold = true;
dress(asked.get("theme") ?? "");

const model = new SampleModel(options);
Object.assign(window, { model });
const el = document.getElementById("page") as HTMLElement;
const sheet = document.querySelector<HTMLLinkElement>('link[href^="theme-"]');
if (sheet) sheet.addEventListener("load", () => void front.render({ model, el }));
else front.render({ model, el });
