/** The editor of the SQL tab: CodeMirror with our dialect, keys, completion and errors underlined. */
import {
  acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap,
  type CompletionContext, type CompletionResult, startCompletion,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { PostgreSQL, sql, SQLDialect } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Completion, Failure } from "../protocol";
import { asksAt, completions, underlined } from "./lookup";

export interface EditorActions {
  run(): void;
  changed(text: string): void;
  complete(text: string, at: number): Promise<Completion | null>; // null: superseded
  cancelComplete(): void;
}

const WAIT = 120; // milliseconds without a key before completion is asked for

const HIGHLIGHT = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword], class: "sx-code-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "sx-code-string" },
  { tag: [tags.number, tags.bool, tags.null], class: "sx-code-number" },
  { tag: [tags.lineComment, tags.blockComment], class: "sx-code-comment" },
  { tag: [tags.typeName, tags.standard(tags.name)], class: "sx-code-type" },
]);

export function makeEditor(
  parent: HTMLElement,
  text: string,
  keywords: readonly string[],
  actions: EditorActions,
): EditorView {
  const state = EditorState.create({ doc: text, extensions: extensions(keywords, actions) });
  return new EditorView({ state, parent });
}

function extensions(keywords: readonly string[], actions: EditorActions) {
  return [
    Prec.highest(
      keymap.of([
        { key: "Mod-Enter", run: (view) => (closeCompletion(view), actions.run(), true), preventDefault: true },
        { key: "Tab", run: acceptCompletion }, // else Tab leaves the editor
        { key: "Ctrl-Space", run: startCompletion },
      ]),
    ),
    history(),
    drawSelection(),
    bracketMatching(),
    closeBrackets(),
    autocompletion({
      override: [(context) => asked(context, actions)],
      activateOnTypingDelay: WAIT,
      icons: false,
      maxRenderedOptions: 100,
    }),
    sql({ dialect: dialect(keywords) }),
    syntaxHighlighting(HIGHLIGHT),
    placeholder("SELECT …"),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": "SQL statement", "data-lm-suppress-shortcuts": "true" }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) actions.changed(update.state.doc.toString());
    }),
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
  ];
}

/** PostgreSQL's lexer with our keywords: what is coloured is what can be run. */
function dialect(keywords: readonly string[]): SQLDialect {
  if (keywords.length === 0) return PostgreSQL;
  return SQLDialect.define({
    ...PostgreSQL.spec,
    keywords: keywords.join(" ").toLowerCase(),
    doubleDollarQuotedStrings: false,
  });
}

async function asked(context: CompletionContext, actions: EditorActions): Promise<CompletionResult | null> {
  const text = context.state.doc.toString();
  if (!context.explicit && !asksAt(text.slice(0, context.pos))) return null;
  context.addEventListener("abort", () => actions.cancelComplete());
  const offered = await actions.complete(text, context.pos);
  if (offered === null || context.aborted || context.view?.hasFocus === false) return null;
  return completions(offered, context.explicit ? "" : text.slice(offered.from, context.pos));
}

/** Another text in the editor, the cursor at its end. */
export function setText(view: EditorView, text: string): void {
  if (view.state.doc.toString() === text) return;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: text.length } });
}

/** Underline the place of a failure, or nothing. */
export function markFailure(view: EditorView, failure: Failure | null): void {
  const place = failure?.place;
  const marks = place
    ? [{ ...underlined(place, view.state.doc.length), severity: "error" as const, message: failure.message }]
    : [];
  view.dispatch(setDiagnostics(view.state, marks));
}
