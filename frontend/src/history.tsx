/** The History tab: commits, the newest first. One that is selected is shown, two are compared. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, moment, plural, utcAgo, utcExact } from "./format";
import "./history.css";
import { Icon } from "./icons";
import { failureOf } from "./kernel";
import { kindLabel, KindMark } from "./kinds";
import { rowFor } from "./list_window";
import type { Failure as Reason, HistoryEntry } from "./protocol";
import { Button, Chip, Empty, Facts, Failure, Skeleton } from "./states";
import type { Store } from "./store";

const PAGE = 100;
const PAGE_KEY = 8; // commits that Page Up and Page Down go by

interface Listed {
  entries: HistoryEntry[];
  total: number | null; // null: nothing was read yet
  failure: Reason | null;
}

const NONE: Listed = { entries: [], total: null, failure: null };

export function HistoryTab({ store }: { store: Store }) {
  const listed = useSignal<Listed>(NONE);
  const table = store.table.value;
  const newest = store.newest.value;
  const read = async (first: number): Promise<void> => {
    const before = first === 0 ? [] : listed.peek().entries;
    try {
      const answer = await store.kernel.ask("history", { table, first, count: PAGE });
      listed.value = { entries: [...before, ...answer.entries], total: answer.total, failure: null };
      store.say(answer.line);
    } catch (error) {
      listed.value = { ...listed.peek(), failure: failureOf(error) };
    }
  };
  useEffect(() => {
    void read(0);
    return () => store.kernel.cancel("history");
  }, [table, newest]);
  const { entries, total, failure } = listed.value;
  return (
    <div class="sx-history">
      {failure && <Failure failure={failure} onRetry={() => void read(entries.length)} />}
      {total === null && !failure && <Skeleton rows={12} height="20px" label="The history is read" />}
      {total === 0 && <Empty title="No snapshots yet" icon="table" />}
      {entries.length > 0 && (
        <>
          <div class="sx-commit-head sx-muted" aria-hidden="true">
            <span>Change</span>
            <span>Rows after</span>
            <span>When</span>
          </div>
          <Commits store={store} entries={entries} />
        </>
      )}
      {total !== null && entries.length < total && !failure && (
        <More key={entries.length} left={total - entries.length} onSeen={() => void read(entries.length)} />
      )}
    </div>
  );
}

/** The end of what was read: as soon as it is seen, more is. */
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

function Commits({ store, entries }: { store: Store; entries: HistoryEntry[] }) {
  const list = useRef<HTMLUListElement>(null);
  const most = Math.max(1, ...entries.map((each) => each.rows));
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
      {entries.map((entry) => <Commit key={entry.number} store={store} entry={entry} most={most} />)}
    </ul>
  );
}

interface CommitParts {
  store: Store;
  entry: HistoryEntry;
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
              <span class="sx-cut">{entry.message ? <strong>{entry.message}</strong> : kindLabel(entry.kind)}</span>
              {entry.savepoints.length > 0 && (
                <Chip tone="accent" title={`Savepoints: ${entry.savepoints.join(", ")}`}>
                  <Icon name="flag" />
                  {entry.savepoints[0]}
                  {entry.savepoints.length > 1 && ` +${entry.savepoints.length - 1}`}
                </Chip>
              )}
            </span>
            <span class="sx-cut sx-muted sx-commit-what">
              {[entry.message ? kindLabel(entry.kind) : "", entry.change].filter(Boolean).join(" · ")}
            </span>
          </span>
          <span class="sx-commit-rows">
            <span class="sx-commit-track">
              <span class="sx-commit-bar" style={{ width: `${(100 * entry.rows) / most}%` }} />
            </span>
            {count(entry.rows)}
          </span>
          <time class="sx-commit-time sx-muted" title={utcAgo(entry.committed)}>{moment(entry.committed)}</time>
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

function Details({ store, entry }: { store: Store; entry: HistoryEntry }) {
  const facts: [string, string][] = [
    ["Committed", utcExact(entry.committed)],
    ["Files", count(entry.files)],
    ...entry.details,
  ];
  const canAct = store.opened.value.value?.actions ?? false;
  return (
    <div class="sx-commit-details">
      <Facts class="sx-commit-facts" facts={facts} />
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
