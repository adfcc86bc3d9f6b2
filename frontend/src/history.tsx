/** The History tab: commits, the newest first. One that is selected is shown, two are compared. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, plural, utcExact } from "./format";
import "./history.css";
import { Icon } from "./icons";
import { KindMark } from "./kinds";
import { rowFor } from "./list_window";
import type { CommitAnswer, OpenTable, Versions } from "./protocol";
import { Button, Chip, Facts, Failure, Skeleton } from "./states";
import { type Loaded, NOTHING, type Store } from "./store";
import { type VersionWords, wordsOf } from "./version_words";

const PAGE = 100;
const PAGE_KEY = 8; // commits that Page Up and Page Down go by

export function HistoryTab({ store }: { store: Store }) {
  const opened = store.opened.value.value;
  return (
    <div class="sx-history">
      {opened === null ? <Skeleton rows={12} height="20px" label="The history is read" /> : (
        <History store={store} opened={opened} />
      )}
    </div>
  );
}

function History({ store, opened }: { store: Store; opened: OpenTable }) {
  const [shown, setShown] = useState(PAGE);
  const { versions } = opened;
  const all = versions.number.length;
  useEffect(() => store.say(`%sleeper history ${opened.name}`), [opened.name]);
  return (
    <>
      <div class="sx-commit-head sx-muted" aria-hidden="true">
        <span>Change</span>
        <span>Rows after</span>
        <span>When</span>
      </div>
      <Commits store={store} versions={versions} shown={Math.min(shown, all)} />
      {shown < all && <More key={shown} left={all - shown} onSeen={() => setShown(shown + PAGE)} />}
    </>
  );
}

/** The end of what is listed: as soon as it is seen, more is. */
function More({ left, onSeen }: { left: number; onSeen: () => void }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && onSeen(), {
      rootMargin: "400px",
    });
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  return <div ref={place} class="sx-history-more sx-muted">{plural(left, "older snapshot")}</div>;
}

function Commits({ store, versions, shown }: { store: Store; versions: Versions; shown: number }) {
  const list = useRef<HTMLUListElement>(null);
  const last = versions.number.length - 1;
  const most = versions.rows.reduce((found, each) => Math.max(found, each), 1);
  const onKey = (event: KeyboardEvent): void => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>(".sx-commit-main") ?? [])];
    const at = rows.indexOf(event.target as HTMLElement);
    if (at === -1) return;
    const next = rowFor(event.key, at, rows.length, PAGE_KEY);
    if (next === null) return;
    event.preventDefault();
    rows[next]?.focus();
  };
  return (
    <ul ref={list} class="sx-commits" aria-label="Commits, newest first" onKeyDown={onKey}>
      {Array.from({ length: shown }, (_, i) => wordsOf(versions, last - i)).map((entry) => (
        <Commit key={entry.number} store={store} entry={entry} most={most} />
      ))}
    </ul>
  );
}

interface CommitParts {
  store: Store;
  entry: VersionWords;
  most: number; // rows of the largest snapshot
}

function Commit({ store, entry, most }: CommitParts) {
  const [open, setOpen] = useState(false);
  const shown = store.version.value;
  const isShown = entry.number === shown;
  const isCompared = entry.number === store.before.value;
  const select = (event: MouseEvent): void => {
    if (event.shiftKey && !isShown) store.compare(entry.number, shown);
    else store.travel(entry.number);
  };
  return (
    <li class={`sx-commit${isShown ? " sx-commit-shown" : ""}${isCompared ? " sx-commit-compared" : ""}`}>
      <div class="sx-commit-row">
        <button
          type="button" class="sx-commit-main" aria-pressed={isShown}
          title="Show this snapshot (Shift: compare with the one shown)" onClick={select}
        >
          <KindMark kind={entry.kind} />
          <span class="sx-commit-number sx-muted">{entry.number}</span>
          <span class="sx-commit-words">
            <span class="sx-commit-first">
              <span class="sx-cut">{entry.message ? <strong>{entry.message}</strong> : entry.label}</span>
              {entry.savepoints.length > 0 && (
                <Chip tone="accent" title={`Savepoints: ${entry.savepoints.join(", ")}`}>
                  <Icon name="flag" />
                  {entry.savepoints[0]}
                  {entry.savepoints.length > 1 && ` +${entry.savepoints.length - 1}`}
                </Chip>
              )}
            </span>
            <span class="sx-cut sx-muted sx-commit-what">
              {[entry.message ? entry.label : "", entry.change].filter(Boolean).join(" · ")}
            </span>
          </span>
          <span class="sx-commit-rows">
            <span class="sx-commit-track">
              <span class="sx-commit-bar" style={{ width: `${(100 * entry.rows) / most}%` }} />
            </span>
            {count(entry.rows)}
          </span>
          <time class="sx-commit-time sx-muted" title={entry.exactly}>{entry.when}</time>
        </button>
        {!isShown && (
          <Button
            look="quiet" icon="compare" aria-label={`Compare ${entry.number} with the shown snapshot ${shown}`}
            onClick={() => store.compare(entry.number, shown)}
          >
            <span class="sx-commit-compare">Compare</span>
          </Button>
        )}
        <Button
          look="quiet" icon={open ? "down" : "right"} aria-label={`Details of snapshot ${entry.number}`}
          aria-expanded={open} onClick={() => setOpen(!open)}
        />
      </div>
      {open && <Details store={store} entry={entry} />}
    </li>
  );
}

function Details({ store, entry }: { store: Store; entry: VersionWords }) {
  const asked = useSignal<Loaded<CommitAnswer>>(NOTHING);
  const topic = `commit ${entry.number}`;
  useEffect(() => {
    void store.load(asked, "commit", { table: store.table.peek(), version: entry.number }, { topic });
    return () => store.kernel.cancel(topic);
  }, [entry.number]);
  const { value, failure } = asked.value;
  const known: [string, string][] = value === null ? [] : [["Files", count(value.files)], ...value.details];
  const canAct = store.opened.value.value?.actions ?? false;
  return (
    <div class="sx-commit-details">
      <Facts class="sx-commit-facts" facts={[["Committed", utcExact(entry.committed)], ...known]} />
      {failure && <Failure failure={failure} />}
      {canAct && (
        <div class="sx-commit-actions">
          <Button icon="flag" onClick={() => store.plan("save", entry.number)}>Name snapshot {entry.number}…</Button>
          {entry.number !== store.newest.value && (
            <Button icon="back" onClick={() => store.plan("roll back", entry.number)}>
              Roll back to {entry.number}…
            </Button>
          )}
        </div>
      )}
    </div>
  );
}
