/** The SQL tab: an editor, the answer in a grid, and a chart of it. */
import { effect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ChartPicker, ChartView } from "./chart";
import { InsertCell } from "./footer";
import { plural } from "./format";
import { Grid } from "./grid/grid";
import { GridSkeleton } from "./grid/grid_parts";
import { Icon } from "./icons";
import { Superseded } from "./kernel";
import { Menu } from "./menu";
import { PlanCard } from "./plan_card";
import type { Completion, SqlAnswer } from "./protocol";
import "./sql.css";
import { Colors } from "./sql/colors";
import { makeEditor, markFailure, setText } from "./sql/editor";
import { corrected } from "./sql/lookup";
import { defaultStatement, type Face, oneLine, ShownAnswer, type SqlState, sqlState } from "./sql/state";
import { Button, Empty, Failure, Segments, Status } from "./states";
import type { Store } from "./store";

const IS_MAC = /Mac|iPhone|iPad/.test(globalThis.navigator?.platform ?? "");

const FACES: { value: Face; title: string }[] = [
  { value: "table", title: "Table" },
  { value: "chart", title: "Chart" },
];

export function SqlTab({ store }: { store: Store }) {
  const state = sqlState(store);
  useEffect(
    () =>
      effect(() => {
        const { value } = state.answer.value;
        const shown = state.shown.value;
        const chart = shown?.face.value === "chart" ? shown.chart.value.value : null;
        if (value?.kind === "rows") store.say(chart?.line ?? value.line, value.source, value.seconds);
        else store.say(""); // a plan has its command itself
      }),
    [state],
  );
  return (
    <div class="sx-sql">
      <div class={`sx-sql-panes${state.answer.value.value ? " sx-sql-answered" : ""}`}>
        <StatementEditor store={store} state={state} />
        <Outcome store={store} state={state} />
      </div>
    </div>
  );
}

function StatementEditor({ store, state }: { store: Store; state: SqlState }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (store.statement.peek() === "") store.statement.value = defaultStatement(store.table.peek());
    const made = makeEditor(place.current!, store.statement.peek(), store.start.keywords, {
      run: () => void state.run(),
      changed: (text) => state.edited(text),
      complete: (text, at) => complete(store, text, at),
      cancelComplete: () => store.kernel.cancel("complete"),
    });
    const ends = [
      effect(() => setText(made, store.statement.value)),
      effect(() => markFailure(made, state.answer.value.failure)),
    ];
    return () => {
      ends.forEach((end) => end());
      made.destroy();
    };
  }, [store]);
  const version = store.version.value;
  return (
    <div class="sx-sql-top">
      <div class="sx-sql-bar">
        {state.answer.value.loading ? <Button look="primary" icon="stop" onClick={() => state.stop()}>Stop</Button> : (
          <Button look="primary" icon="play" aria-keyshortcuts="Control+Enter" onClick={() => void state.run()}>
            Run <kbd class="sx-sql-key">{IS_MAC ? "⌘⏎" : "Ctrl ⏎"}</kbd>
          </Button>
        )}
        {state.answer.value.loading ? <Running /> : (
          <span class="sx-muted">{version > 0 && `at snapshot ${version}`}</span>
        )}
        <span class="sx-space" />
        <Earlier state={state} />
      </div>
      <div ref={place} class="sx-sql-editor" data-lm-suppress-shortcuts="true" />
    </div>
  );
}

async function complete(store: Store, text: string, at: number): Promise<Completion | null> {
  try {
    return await store.kernel.ask("complete", { text, at, table: store.table.peek() });
  } catch (error) {
    if (error instanceof Superseded) return null;
    return { from: at, options: [] }; // what cannot be completed is not worth an alert while one writes
  }
}

function Earlier({ state }: { state: SqlState }) {
  const past = state.past.value;
  if (past.length === 0) return null;
  return (
    <Menu
      label="Recent queries" class="sx-sql-earlier"
      actions={past.map((each) => ({ text: oneLine(each), run: () => state.edited(each) }))}
    >
      <Icon name="clock" />
      Recent
    </Menu>
  );
}

/** How long a statement runs. */
function Running() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((now) => now + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return <span class="sx-muted">Running{seconds > 0 && `, ${seconds} s`}</span>;
}

function Outcome({ store, state }: { store: Store; state: SqlState }) {
  const { value, loading, failure } = state.answer.value;
  const status = state.status.value;
  const better = failure && corrected(store.statement.value, failure);
  return (
    <div class={`sx-sql-answer${loading && value ? " sx-old" : ""}`} aria-busy={loading}>
      {status && (
        <div class="sx-sql-status">
          <Status>{status}</Status>
        </div>
      )}
      {failure && (
        <div class="sx-sql-failure">
          <Failure failure={failure}>
            {better && <Button onClick={() => state.edited(better.text)}>Use {better.name}</Button>}
          </Failure>
        </div>
      )}
      <Answered store={store} state={state} value={value} loading={loading} />
    </div>
  );
}

function Answered(parts: { store: Store; state: SqlState; value: SqlAnswer | null; loading: boolean }) {
  const { store, state, value, loading } = parts;
  const shown = state.shown.value;
  if (value?.kind === "plan") {
    return (
      <div class="sx-sql-plan">
        <PlanCard plan={value.plan} note="Nothing has changed. Run the command in a cell to apply it.">
          {store.start.canWrite && (
            <InsertCell
              store={store} line={value.plan.line} look={value.plan.danger ? "outline" : "primary"}
              text={value.plan.button}
            />
          )}
        </PlanCard>
      </div>
    );
  }
  if (shown !== null) {
    const version = state.version.value; // said only where it is no longer the one beside Run
    return <AnswerRows shown={shown} version={version === store.version.value ? 0 : version} />;
  }
  if (loading) {
    return <GridSkeleton />;
  }
  if (state.failure) return null;
  const keys = IS_MAC ? "⌘⏎" : "Ctrl+Enter";
  return (
    <Empty title="No answer yet" icon="table">
      <span class="sx-sql-hint">
        Run a statement with {keys}. It reads {store.table.value} at snapshot {store.version.value}, and other tables as
        they are now.
      </span>
    </Empty>
  );
}

function AnswerRows({ shown, version }: { shown: ShownAnswer; version: number }) {
  const face = shown.face.value;
  const { total } = shown.source;
  return (
    <>
      <div class="sx-sql-head">
        <Segments label="Show the answer as" options={FACES} value={face} onChoose={(each) => shown.show(each)} />
        <span class="sx-muted sx-sql-total" role="status">
          {total === null ? `More than ${plural(shown.first.rows.length, "row")}` : plural(total, "row")}
          {version > 0 && ` · at snapshot ${version}`}
        </span>
        {face === "chart" && <ChartPicker shown={shown} />}
      </div>
      {face === "table" ? <div class="sx-sql-grid"><Grid source={shown.source} label="Answer" /></div> : (
        <ChartView shown={shown} />
      )}
    </>
  );
}

/** A page of its own with one answer: its rows and its chart. */
export function AnswerPage({ store }: { store: Store }) {
  const [shown] = useState(() => {
    const first = store.kernel.peek("page", { first: 0, count: 100 });
    return first?.columns ? new ShownAnswer(store, first.columns, first, "answer", new Colors()) : null;
  });
  const chart = shown?.face.value === "chart" ? shown.chart.value.value : null;
  const statement = store.statement.value;
  useEffect(() => {
    store.say(chart?.line ?? (statement ? `%%sleeper sql\n${statement}` : ""));
  }, [chart, statement]);
  if (shown === null) return <Empty title="The answer is gone">Run the cell again.</Empty>;
  return <div class="sx-sql-answer sx-sql-page"><AnswerRows shown={shown} version={0} /></div>;
}
