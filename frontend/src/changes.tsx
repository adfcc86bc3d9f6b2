/** The Changes tab: rows, columns, files and partitions that differ between two versions; roll back and savepoint. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import {
  type ChangeKind, blockOf, byDistance, comparedWith, gridColumns, isUndone, messageOf, pairedBars,
} from "./change_view";
import { ActionPanel } from "./action_panel";
import "./changes.css";
import { bytes, count, percent, plural, signed } from "./format";
import { Grid } from "./grid/grid";
import type { GridSource } from "./grid/source";
import { Icon } from "./icons";
import { KindMark } from "./kinds";
import { type Action, Menu } from "./menu";
import { MiniBars } from "./mini_bars";
import type { ChangesAnswer, Column, ColumnChange, Requests } from "./protocol";
import { Button, Chip, Empty, Facts, Failure, Segments, Skeleton } from "./states";
import { type Loaded, NOTHING, type Store } from "./store";
import { type VersionWords, wordsOf } from "./version_words";

const SETTLE = 120; // milliseconds: a handle that is dragged asks where it stops
const KINDS: { kind: ChangeKind; sign: string; word: string }[] = [
  { kind: "added", sign: "+", word: "added" },
  { kind: "removed", sign: "−", word: "removed" },
  { kind: "changed", sign: "~", word: "changed" },
];

export function ChangesTab({ store }: { store: Store }) {
  const opened = store.opened.value.value;
  const version = store.version.value;
  const at = opened?.versions.number.indexOf(version) ?? -1;
  if (opened === null || at < 0) return <Waiting />;
  const other = comparedWith(opened.versions, version, store.before.value);
  const panel = <ActionPanel store={store} />;
  if (other < 0) {
    return (
      <div class="sx-changes">
        <div class="sx-changes-body">
          {panel}
          <Empty title="There is no earlier version" icon="compare">
            Snapshot {version} is the first of {opened.name}. Choose a later one in the time bar to see what it changed.
          </Empty>
        </div>
      </div>
    );
  }
  const [from, to] = [Math.min(at, other), Math.max(at, other)].map((each) => wordsOf(opened.versions, each));
  return <Review store={store} table={opened.name} from={from!} to={to!} canAct={opened.actions}>{panel}</Review>;
}

/** Buttons where there is room and a roll back undoes no more than what is compared; else a menu. */
function Actions({ store, from, to, isUndone }: { store: Store; from: VersionWords; to: VersionWords; isUndone: boolean }) {
  const newest = store.newest.value;
  const open = store.planned.value?.action;
  const isNewest = to.number === newest;
  const later = isNewest ? "" : `, undoing all up to ${newest}`;
  const actions: Action[] = [
    {
      text: `Name snapshot ${to.number}…`,
      icon: "flag",
      disabled: open === "save",
      run: () => store.plan("save", to.number),
    },
    {
      text: `Roll back to ${from.number}${later}…`,
      icon: "back",
      disabled: open === "roll back" || (isNewest && isUndone),
      run: () => store.plan("roll back", from.number),
    },
  ];
  return (
    <>
      {isNewest && (
        <div class="sx-changes-actions">
          {actions.map(({ text, icon, disabled, run }) => (
            <Button key={text} {...(icon ? { icon } : {})} disabled={disabled} onClick={run}>{text}</Button>
          ))}
        </div>
      )}
      <Menu class={`sx-menu-end sx-changes-menu${isNewest ? " sx-narrow" : ""}`} label="Actions" actions={actions}>
        <Icon name="more" />
      </Menu>
    </>
  );
}

interface ReviewParts {
  store: Store;
  table: string;
  from: VersionWords;
  to: VersionWords;
  canAct: boolean;
  children: ComponentChildren; // above the counts
}

/** What differs between two versions of a table. */
function Review({ store, table, from, to, canAct, children }: ReviewParts) {
  const loaded = useSignal<Loaded<ChangesAnswer>>(NOTHING);
  const wanted = useSignal<Requests["changes"]["args"]["asked"]>([]);
  const hidden = useSignal<ChangeKind[]>([]);
  const ask = (): void => {
    const args = { table, before: from.number, after: to.number, asked: wanted.peek() };
    void store.load(loaded, "changes", args, { parts: true });
  };
  useEffect(() => {
    wanted.value = [];
    const timer = setTimeout(ask, loaded.peek().value === null ? 0 : SETTLE);
    return () => clearTimeout(timer);
  }, [table, from.number, to.number, to.committed]);
  const read = (what: "rows" | "columns"): void => {
    wanted.value = [...wanted.peek(), what];
    ask();
  };
  const { value, loading, failure } = loaded.value;
  const isOld = value !== null && (value.before !== from.number || value.after !== to.number);
  useEffect(() => {
    if (value && !isOld) store.say(value.line);
  }, [value, isOld]);
  const columns = store.schema.value.value?.columns ?? [];
  return (
    <div class="sx-changes">
      <div class="sx-changes-header">
        <EndLine title="From" end={from} />
        <Icon name="right" />
        <EndLine title="To" end={to} />
        {canAct && (
          <Actions store={store} from={from} to={to} isUndone={!isOld && value !== null && isUndone(to.kind, value)} />
        )}
      </div>
      <div class={`sx-changes-body${isOld ? " sx-old" : ""}`} aria-busy={loading}>
        {children}
        {failure && <Failure failure={failure} onRetry={ask} />}
        {!failure && value === null && <Skeleton rows={10} label="Versions are compared" />}
        {!failure && value !== null && store.planned.value === null && (
          <Differences
            answer={value} loading={loading} hidden={hidden.value} columns={columns} onRead={read}
            onHide={(kinds) => (hidden.value = kinds)}
          />
        )}
      </div>
    </div>
  );
}

/** One of the two versions, on one line; its tooltip has all of it. */
function EndLine({ title, end }: { title: string; end: VersionWords }) {
  const said = [messageOf(end) || end.label, end.change].filter(Boolean).join(" · ");
  return (
    <p class="sx-end" title={[said, ...end.savepoints, end.exactly].filter(Boolean).join(" · ")}>
      <span class="sx-muted sx-end-title">{title}</span>
      <KindMark kind={end.kind} />
      <strong>{end.number}</strong>
      <span class="sx-end-said sx-cut">
        {said} <span class="sx-muted">{end.when}</span>
      </span>
    </p>
  );
}

interface DifferencesParts {
  answer: ChangesAnswer;
  loading: boolean;
  hidden: ChangeKind[];
  columns: Column[];
  onRead: (what: "rows" | "columns") => void;
  onHide: (kinds: ChangeKind[]) => void;
}

type Part = "rows" | "columns" | "files" | "partitions" | "schema";

/** One part of what differs at a time; how much there is of each is always said. */
function Differences({ answer, loading, hidden, columns, onRead, onHide }: DifferencesParts) {
  const chosen = useSignal<Part>("rows");
  const { filesOf, partitionsChanged, schema } = answer;
  const parts: { value: Part; title: string; many?: number }[] = [
    { value: "rows", title: "Rows" },
    { value: "columns", title: "Columns" },
    { value: "files", title: "Files", many: filesOf.added + filesOf.removed },
    { value: "partitions", title: "Partitions", many: partitionsChanged },
    { value: "schema", title: "Schema", many: schema.length },
  ];
  const part = chosen.value;
  return (
    <>
      <div class="sx-changes-bar">
        <Segments label="What differs" options={parts} value={part} onChoose={(each) => (chosen.value = each)} />
        <Counts answer={answer} loading={loading} hidden={hidden} onRead={onRead} onHide={onHide} />
      </div>
      {part === "rows" && (
        <Rows
          answer={answer} hidden={hidden} columns={columns} loading={loading}
          onFiles={() => (chosen.value = "files")}
        />
      )}
      {part === "columns" && <Statistics answer={answer} loading={loading} onRead={onRead} />}
      {part === "files" && <Files answer={answer} />}
      {part === "partitions" && <Partitions answer={answer} />}
      {part === "schema" && <SchemaDifferences answer={answer} />}
    </>
  );
}

/** Three counts that also choose which rows are listed. */
function Counts({ answer, loading, hidden, onRead, onHide }: Omit<DifferencesParts, "columns">) {
  const { counts, unread, most } = answer;
  if (counts === null && unread.rows) {
    return (
      <div class="sx-changes-counts">
        <Button onClick={() => onRead("rows")}>Read {unread.rows}</Button>
        <span class="sx-muted">to compare the rows.</span>
      </div>
    );
  }
  if (counts === null) {
    return (
      <div class="sx-changes-counts">
        {loading ? <Skeleton width="280px" height="28px" /> : <span>Rows were not compared.</span>}
      </div>
    );
  }
  const toggle = (kind: ChangeKind): void =>
    onHide(hidden.includes(kind) ? hidden.filter((each) => each !== kind) : [...hidden, kind]);
  const isCut = KINDS.some(({ kind }) => counts[kind] > most);
  return (
    <div class="sx-changes-counts" role="group" aria-label="Rows that are listed">
      {KINDS.map(({ kind, sign, word }) => (
        <button
          key={kind} type="button" class={`sx-count ${counts[kind] === 0 ? "sx-count-none" : `sx-count-${kind}`}`}
          aria-pressed={!hidden.includes(kind) && counts[kind] > 0} disabled={counts[kind] === 0}
          onClick={() => toggle(kind)}
        >
          <span aria-hidden="true">{sign}</span>
          <strong>{count(counts[kind])}</strong> <span class="sx-count-word">{word}</span>
        </button>
      ))}
      {isCut && <span class="sx-muted sx-count-most">The first {count(most)} of each are listed</span>}
    </div>
  );
}

type RowsParts = Pick<DifferencesParts, "answer" | "hidden" | "columns" | "loading"> & { onFiles: () => void };

function Rows({ answer, hidden, columns, loading, onFiles }: RowsParts) {
  const rows = useMemo(() => answer.rows.filter((row) => !hidden.includes(row.kind)), [answer, hidden]);
  const shownColumns = useMemo(() => gridColumns(answer, columns), [answer, columns]);
  const source = useMemo(
    (): GridSource => ({
      key: [answer.before, answer.after, rows.length, ...hidden, ...shownColumns.map((each) => each.type)].join(" "),
      columns: shownColumns,
      total: rows.length,
      marked: true,
      fetch: (asked) => Promise.resolve(blockOf(answer, rows, asked)),
    }),
    [answer, rows, shownColumns],
  );
  if (answer.counts === null) return loading && !answer.unread.rows ? <Skeleton rows={6} /> : null;
  if (answer.rows.length === 0) return <SameRows answer={answer} onFiles={onFiles} />;
  if (rows.length === 0) return <Empty title="All kinds are hidden">Press a count to list its rows.</Empty>;
  return <div class="sx-changes-grid"><Grid source={source} label="Changed rows" /></div>;
}

function SameRows({ answer, onFiles }: { answer: ChangesAnswer; onFiles: () => void }) {
  const { added, removed } = answer.filesOf;
  const verb = removed === 1 ? "was" : "were";
  return (
    <Empty
      title="The rows are the same"
      action={added + removed > 0 ? <Button onClick={onFiles}>Show files</Button> : null}
    >
      {added > 0 && removed > 0 && `${plural(removed, "file")} ${verb} rewritten as ${count(added)}.`}
    </Empty>
  );
}

function SchemaDifferences({ answer }: { answer: ChangesAnswer }) {
  if (answer.schema.length === 0) return <Empty title="The schema is the same" />;
  return (
    <ul class="sx-changes-schema" aria-label="Schema">
      {answer.schema.map(({ name, before, after }) => (
        <li key={name}>
          <Chip tone={before === "" ? "added" : after === "" ? "removed" : "changed"}>
            {before === "" ? "+ added" : after === "" ? "− removed" : "~ changed"}
          </Chip>
          <strong>{name}</strong>
          <code>{before === "" || after === "" ? before || after : `${before} → ${after}`}</code>
        </li>
      ))}
    </ul>
  );
}

function Statistics({ answer, loading, onRead }: Pick<DifferencesParts, "answer" | "loading" | "onRead">) {
  const { statistics, unread } = answer;
  const sorted = useMemo(() => (statistics ? byDistance(statistics) : null), [statistics]);
  if (sorted === null && unread.columns) {
    return (
      <Empty
        title="Values were not compared"
        action={<Button onClick={() => onRead("columns")}>Read {unread.columns}</Button>}
      >
        Reading both versions shows how the values of each column are spread.
      </Empty>
    );
  }
  if (sorted === null) return loading ? <Skeleton rows={6} label="Columns are compared" /> : null;
  const { moved, same } = sorted;
  if (moved.length === 0)
    return <Empty title="Values are spread as before">No column has other values, or other shares of them.</Empty>;
  return (
    <section class="sx-changes-part" aria-label="Columns">
      <p class="sx-changes-legend sx-muted">
        <span class="sx-legend-bar" /> Snapshot {answer.after} <span class="sx-legend-line" /> Snapshot {answer.before}
      </p>
      <div class="sx-changes-columns">
        {moved.map((each) => <ColumnCard key={each.name} column={each} differs={answer.cells[each.name] ?? 0} />)}
      </div>
      {same.length > 0 && <p class="sx-muted">Spread as before: {same.join(", ")}</p>}
    </section>
  );
}

function ColumnCard({ column, differs }: { column: ColumnChange; differs: number }) {
  const { name, before, after } = column;
  const bars = pairedBars(column).map((each) => ({ label: each.label, value: each.after, before: each.before }));
  const facts: [string, string][] = [];
  if (before === null || after === null) facts.push(["Column", before === null ? "added" : "removed"]);
  else {
    const isNull = before.nulls + after.nulls > 0;
    if (isNull) facts.push(["NULL", arrow(percent(before.nulls, before.rows), percent(after.nulls, after.rows))]);
    facts.push(["Distinct", arrow(count(before.distinct), count(after.distinct))]);
  }
  if (differs > 0) facts.push(["Changed", plural(differs, "cell")]);
  return (
    <article class="sx-column-card" aria-label={name}>
      <h3 class="sx-column-name sx-cut" title={name}>{name}</h3>
      {bars.length > 0 && <MiniBars label={`Values of ${name} before and after`} bars={bars} height={48} />}
      <Facts class="sx-column-facts" facts={facts} />
    </article>
  );
}

function arrow(before: string, after: string): string {
  return before === after ? after : `${before} → ${after}`;
}

function Files({ answer }: { answer: ChangesAnswer }) {
  const { added, removed } = answer.filesOf;
  const listed = [
    ...answer.files.added.map((file) => ({ sign: "+", file })),
    ...answer.files.removed.map((file) => ({ sign: "−", file })),
  ];
  if (listed.length === 0) return <Empty title="No file differs" />;
  return (
    <Table
      heads={["File", "Partition", "Rows", "Size"]}
      rows={listed.map(({ sign, file }) => [
        <>
          <span class={sign === "+" ? "sx-sign-added" : "sx-sign-removed"}>{sign}</span>{" "}
          <code class="sx-file-name sx-cut" title={file.name}>{file.name}</code>
        </>,
        file.partition,
        count(file.rows),
        bytes(file.bytes),
      ])}
      texts={2} note={listed.length < added + removed ? `The first ${count(listed.length)} are listed.` : ""}
    />
  );
}

function Partitions({ answer }: { answer: ChangesAnswer }) {
  const { partitions, partitionsChanged, partitionsOf } = answer;
  if (partitions.length === 0) return <Empty title="No partition differs" />;
  const cut = partitions.length < partitionsChanged ? `; the first ${count(partitions.length)} are listed` : "";
  return (
    <Table
      heads={["Keys", "Rows before", "Rows after", "Difference"]}
      rows={partitions.map(({ keys, rowsBefore, rowsAfter }) => [
        keys,
        count(rowsBefore),
        count(rowsAfter),
        signed(rowsAfter - rowsBefore),
      ])}
      texts={1} note={`${count(partitionsChanged)} of ${plural(partitionsOf, "partition")} differ${cut}.`}
    />
  );
}

interface TableParts {
  heads: string[];
  rows: ComponentChildren[][];
  texts: number; // so many columns from the first are texts, the others numbers
  note: string;
}

function Table({ heads, rows, texts, note }: TableParts) {
  const kind = (at: number): string | undefined => (at < texts ? undefined : "sx-number");
  return (
    <div class="sx-table-scroll">
      <table class="sx-table">
        <thead>
          <tr>{heads.map((head, at) => <th key={head} scope="col" class={kind(at)}>{head}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            <tr key={row}>{cells.map((cell, at) => <td key={at} class={kind(at)}>{cell}</td>)}</tr>
          ))}
        </tbody>
      </table>
      {note && <p class="sx-muted">{note}</p>}
    </div>
  );
}

function Waiting() {
  return (
    <div class="sx-changes">
      <div class="sx-changes-body"><Skeleton rows={10} label="Versions are read" /></div>
    </div>
  );
}
