/** Completion: what the kernel offers, as the editor takes it. */
import type { Completion, CompletionResult } from "@codemirror/autocomplete";
import type { Completion as Offered, Failure } from "../protocol";

const TYPES: Record<Offered["options"][number]["kind"], string> = {
  table: "class",
  column: "property",
  function: "function",
  keyword: "keyword",
  version: "constant",
};

/** The kernel's options keep their order: it knows what may come next. None where the first one is typed already. */
export function completions(offered: Offered, typed = ""): CompletionResult | null {
  const [best] = offered.options;
  if (best === undefined || isTyped(best.label, typed)) return null;
  const options = offered.options.map(({ label, apply, kind }, index): Completion => ({
    label,
    ...(apply === label ? {} : { apply }),
    type: TYPES[kind],
    detail: kind === "keyword" ? "" : kind,
    boost: Math.max(-99, 99 - 2 * index),
  }));
  const validFor = (text: string): boolean => /^\w+$/.test(text) && !options.some(({ label }) => isTyped(label, text));
  return { from: offered.from, options, validFor };
}

function isTyped(label: string, typed: string): boolean {
  return label.toLowerCase() === typed.toLowerCase();
}

/** The statement with the one name that the hint of a failure offers in place of the wrong one; null where none is. */
export function corrected(text: string, failure: Failure): { name: string; text: string } | null {
  const name = /did you mean '?([^\s'?]+)'?\?/i.exec(failure.hint)?.[1];
  if (name === undefined || failure.place === undefined) return null;
  const { from, to } = failure.place;
  return { name, text: text.slice(0, from) + name + text.slice(to) };
}

/** Whether to ask while a user writes: at a word or after a dot, an @ or a quotation mark, not after a space. */
export function asksAt(before: string): boolean {
  return /[\w."'@]$/.test(before);
}

/** A place in the statement that can be underlined: inside the text and not empty. */
export function underlined(place: { from: number; to: number }, length: number): { from: number; to: number } {
  const from = Math.max(0, Math.min(place.from, length));
  const to = Math.max(from, Math.min(place.to, length));
  return from < to ? { from, to } : { from: Math.max(0, from - 1), to: Math.min(length, from + (from === 0 ? 1 : 0)) };
}
