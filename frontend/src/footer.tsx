/** The footer: the equivalent command, what was read, and how long it took. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import "./footer.css";
import { seconds } from "./format";
import { Button, Chip, Copy } from "./states";
import { type Loaded, NOTHING, type Store } from "./store";

export function FooterBar({ store }: { store: Store }) {
  const { line, source, seconds: taken } = store.footer.value;
  if (isPlain(store)) return null;
  return (
    <div class="sx-footer" role="group" aria-label="Equivalent command">
      {line ? (
        <>
          <code class="sx-footer-line" title={line}>{inTwoLines(line)}</code>
          <Copy text={line} look="quiet" name="Copy the command" />
          {store.start.canWrite && <InsertCell store={store} line={line} />}
        </>
      ) : <span class="sx-footer-line" />}
      <span class="sx-footer-facts">
        {source && <Chip title="What was read, at most">{source}</Chip>}
        {taken !== null && <Chip title="Time until the answer">{seconds(taken)}</Chip>}
      </span>
    </div>
  );
}

/** A command as the footer has room for it: the magic, and its statement on one line. */
function inTwoLines(line: string): string {
  const [magic, ...statement] = line.split("\n");
  return line.startsWith("%%") ? `${magic}\n${statement.join(" ")}` : line;
}

/** Whether the page shown has its command itself, or has nothing yet: a statement, or the plan of an action. */
function isPlain(store: Store): boolean {
  const tab = store.tab.value;
  return (tab === "sql" && store.footer.value.line === "") || (tab === "changes" && store.planned.value !== null);
}

/** A button that puts the command into a new cell, and says what became of it. */
export function InsertCell(parts: { store: Store; line: string; look?: "primary" | "outline"; text?: string }) {
  const { store, line, look = "quiet", text = "Insert cell" } = parts;
  const written = useSignal<Loaded<{ sentence: string }>>(NOTHING);
  useEffect(() => void (written.value = NOTHING), [line]);
  const { value, failure } = written.value;
  const insert = (): void => {
    written.value = NOTHING;
    void store.load(written, "write", { text: line });
  };
  return (
    <>
      <Button look={look} icon="insert" title="Put this command into a new cell" onClick={insert}>{text}</Button>
      <span class="sx-footer-said sx-muted sx-cut" role="status">{value?.sentence}</span>
      {failure && <span class="sx-footer-failed sx-cut" role="alert" title={failure.hint}>{failure.message}</span>}
    </>
  );
}
