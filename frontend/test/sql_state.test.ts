import { afterEach, describe, expect, test, vi } from "vitest";
import { RequestError } from "../src/kernel";
import type { ChartAnswer, Plan, Requests } from "../src/protocol";
import { defaultStatement, SqlState } from "../src/sql/state";
import { Store } from "../src/store";
import { FakeKernel, tablesOf } from "./fake_kernel";

const ROWS = Array.from({ length: 2_500 }, (_, i) => [String(i + 1), `N${i}`]);
const PLAN: Plan = { title: "", sentences: [], line: "", button: "", danger: true, possible: true };
const AXES = { x: { label: "origin", kind: "name" as const }, y: { label: "n" }, color: null };
const CHART: ChartAnswer = { mark: "bar", title: "", ...AXES, points: [], notes: [], line: "" };
let store: Store;

function sql({ text }: Requests["sql"]["args"]): Requests["sql"]["answer"] {
  if (text.startsWith("DELETE")) return { kind: "plan", plan: PLAN };
  const from = text.indexOf("dep_dela ");
  if (from >= 0) throw new RequestError({ message: "No column.", hint: "", place: { from, to: from + 8 } });
  const columns = ["id", "tail"].map((name) => ({ name, type: "string", kind: "string" as const }));
  return { kind: "rows", columns, rows: ROWS.slice(0, 200), last: false, source: "", line: "", seconds: 0.18 };
}

function page({ first, count }: Requests["page"]["args"]): Requests["page"]["answer"] {
  const isLast = first + count >= ROWS.length;
  return { first, rows: ROWS.slice(first, first + count), last: isLast, total: ROWS.length };
}

function made(statement: string): { state: SqlState; model: FakeKernel } {
  const answers = { ...tablesOf(), sql, page, chart: () => CHART };
  const model = new FakeKernel({ table: "flights", version: 18, tab: "sql", statement }, answers);
  store = new Store(model);
  return { state: new SqlState(store), model };
}

afterEach(() => store.close());

describe("a statement", () => {
  test("runs at the chosen version, and is kept", async () => {
    const { state, model } = made("SELECT origin FROM flights GROUP BY origin");
    await vi.waitFor(() => expect(store.opened.value.value).not.toBeNull());
    store.travel(12);
    await state.run();
    expect(model.asked.find((each) => each.do === "sql")).toMatchObject({ version: 12, table: "flights" });
    expect(state.shown.value?.columns.map((each) => each.name)).toEqual(["id", "tail"]);
    expect(state.version.value).toBe(12);
    expect(state.past.value).toEqual(["SELECT origin FROM flights GROUP BY origin"]);
  });

  test("that is empty asks nothing", async () => {
    const { state, model } = made("  ");
    await state.run();
    expect(model.asked.filter((each) => each.do === "sql")).toEqual([]);
  });

  test("with an error has no answer; an edit clears the error, and so does a success", async () => {
    const { state } = made("SELECT origin FROM flights GROUP BY origin");
    await state.run();
    store.statement.value = "SELECT dep_dela FROM flights";
    await state.run();
    expect(state.failure?.place).toEqual({ from: 7, to: 15 });
    expect(state.shown.value).toBeNull();
    state.edited("SELECT dep_delay FROM flights");
    expect(state.failure).toBeNull();
    await state.run();
    expect(state.shown.value).not.toBeNull();
  });

  test("that changes something shows its plan only", async () => {
    const { state } = made("DELETE FROM flights");
    await state.run();
    expect(state.shown.value).toBeNull();
    expect(state.answer.value.value?.kind).toBe("plan");
  });

  test("that is stopped is no longer under way", async () => {
    const { state } = made("SELECT 1");
    const run = state.run();
    expect(state.answer.value.loading).toBe(true);
    state.stop();
    await run;
    expect(state.answer.value).toMatchObject({ loading: false, failure: null });
    expect(state.status.value).toBe("Stopped.");
  });
});

describe("an answer", () => {
  test("has its first rows without a request, and pages of the kernel after them", async () => {
    const { state, model } = made("SELECT * FROM flights");
    await state.run();
    const { source } = state.shown.value!;
    const first = await source.fetch({ first: 0, count: 50, columns: ["id"], slot: 0 });
    expect(first.rows).toHaveLength(50);
    expect(first.last).toBe(false);
    expect(model.asked.some((each) => each.do === "page")).toBe(false);
    const later = await source.fetch({ first: 2_400, count: 200, columns: ["id"], slot: 0 });
    expect(later).toMatchObject({ last: true, total: 2_500 });
    expect(later.rows).toHaveLength(100);
  });

  test("is drawn when the chart is looked at, with the same choice after another run", async () => {
    const { state, model } = made("SELECT * FROM flights GROUP BY origin");
    await state.run();
    const shown = state.shown.value!;
    shown.show("chart");
    await vi.waitFor(() => expect(shown.chart.value.value).not.toBeNull());
    await shown.draw({ mark: "bar", x: "origin", y: "n", color: "" });
    await state.run();
    expect(state.shown.value?.face.value).toBe("chart");
    expect(model.asked.filter((each) => each.do === "chart").at(-1)).toMatchObject({ mark: "bar", x: "origin" });
  });
});

test("the first statement names the table, quoted where it must be", () => {
  expect(defaultStatement("flights")).toBe("SELECT *\nFROM flights\nLIMIT 1000");
  expect(defaultStatement('my "t"')).toContain('FROM "my ""t"""');
  expect(defaultStatement("")).toBe("");
});
