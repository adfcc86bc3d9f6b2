// @vitest-environment jsdom
import { cleanup, configure, fireEvent, render, waitFor } from "@testing-library/preact";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Cell, Column, Header, Kind } from "../src/protocol";
import { RowsTab } from "../src/rows";
import { Store } from "../src/store";
import { type Answers, type Asked, FakeKernel } from "./fake_kernel";

const ROWS = 1_000_000;
const ORIGINS = ["EWR", "JFK", "LGA"];

function column(name: string, kind: Kind, role: Column["role"] = ""): Column {
  return { name, type: kind, kind, role, nullable: true, default: null, comment: "" };
}

const COLUMNS = [
  column("origin", "string"),
  column("delay", "integer"),
  column("notes", "nested"),
  column("id", "integer", "row key"),
];

function cellOf(name: string, row: number): Cell {
  if (name === "id") return String(row);
  if (name === "origin") return row % 4 === 3 ? "" : (ORIGINS[row % 4] as string);
  if (name === "notes") return "{by: ada}";
  return name === "delay" && row % 2 ? null : "12345";
}

function headerOf(name: string): Header {
  const all = { counts: [30, 20, 10], of: [30, 20, 10], rows: 60, exact: true };
  if (name === "origin") return { ...all, ranges: false, bars: ORIGINS, nulls: 0, distinct: 3 };
  const one = { ...all, ranges: false, nulls: 0, distinct: 1 };
  if (name === "airport") return { ...one, bars: ["JFK"], counts: [60], of: [60] };
  if (name === "note") return { ...one, bars: ["late"], counts: [12], of: [12], nulls: 48 };
  if (name === "notes") return { ...all, ranges: false, bars: [], counts: [], of: [], nulls: 0, distinct: null };
  const labels = ["≤ 10", "10 < … ≤ 20", "20 < … ≤ 30"];
  return { ...all, ranges: true, bars: labels, ends: ["1", "30"], nulls: 6, distinct: 30 };
}

interface Options {
  columns?: Column[];
  rows?: number;
  unread?: string;
  fail?: string;
}

function answersOf({ rows = ROWS, unread = "", columns = COLUMNS }: Options): Answers {
  const texts = { kind: ["ingest"], change: [""], message: [""] };
  const versions = { number: [3], committed: [0], ...texts, rows: [rows], bytes: [1], savepoints: {} };
  const whole = { rows, bytes: 1, files: 1, partitions: 1, comment: "", properties: [], line: "" };
  return {
    open: () => ({ name: "t", comment: "", versions, actions: true }),
    schema: () => ({ version: 3, columns, ...whole }),
    rows: ({ query, first, count, columns: names }) => {
      const found = query.filters.length > 0 ? Math.min(500, rows) : rows;
      const length = Math.max(0, Math.min(count, found - first));
      const page = Array.from({ length }, (_, i) => names.map((name) => cellOf(name, first + i)));
      const read = { version: 3, first, columns: names, rows: page, total: found, last: false };
      return { ...read, where: "", line: "line", scan: "scan", source: "1 file" };
    },
    headers: ({ columns: names, all }) => {
      if (unread && !all) return { version: 3, headers: {}, unread };
      return { version: 3, headers: Object.fromEntries(names.map((name) => [name, headerOf(name)])), unread: "" };
    },
    cube: ({ column: brushed, columns: names }) => {
      const of = { counts: [[3, 0, 0], [1, 1, 0], [0, 0, 2]], nulls: [0, 1, 0] };
      const all = Object.fromEntries(names.map((name) => [name, of]));
      return { version: 3, column: brushed, rows: [3, 2, 2], columns: all };
    },
    value: () => ({ tree: { text: "struct", items: [["by", { text: "ada" }]] } }),
  };
}

const BOX = { left: 0, top: 0, right: 120, bottom: 400, width: 120, height: 400, x: 0, y: 0, toJSON: () => "" };

vi.setConfig({ testTimeout: 30_000 });
configure({ asyncUtilTimeout: 10_000 });

beforeAll(() => {
  // jsdom has no layout: everything has one size
  Object.defineProperty(HTMLElement.prototype, "clientWidth", { configurable: true, value: 1_300 });
  Object.defineProperty(HTMLElement.prototype, "clientHeight", { configurable: true, value: 400 });
  Element.prototype.getBoundingClientRect = () => BOX;
  Element.prototype.setPointerCapture = () => undefined;
  globalThis.ResizeObserver = class {
    observe(): void {}
    unobserve(): void {}
    disconnect(): void {}
  };
});

afterEach(cleanup);

const find = <E extends Element = HTMLElement>(selector: string): E => {
  const found = document.querySelector<E>(selector);
  if (found === null) throw new Error(`There is no ${selector}`);
  return found;
};
const bars = (name: string): HTMLElement => find(`[role=slider][aria-label="Filter ${name}"]`);
const header = (name: string): HTMLElement => find(`[role=columnheader][aria-label="${name}"]`);
const sorter = (name: string): HTMLElement => find(`[aria-label="Sort by ${name}"]`);
const grid = (): HTMLElement => find("[role=grid]");
const button = (text: string): HTMLElement => {
  const found = [...document.querySelectorAll("button")].find((each) => each.textContent?.includes(text));
  if (found === undefined) throw new Error(`There is no button ${text}`);
  return found;
};

/** The tab, with its rows and headers. */
async function shown(options: Options = {}): Promise<{ store: Store; asked: (what: string) => Asked[] }> {
  const kernel = new FakeKernel({ table: "t", version: 3 }, answersOf(options), options.fail);
  const store = new Store(kernel);
  render(<RowsTab store={store} />);
  const isQuiet = options.unread !== undefined || options.fail !== undefined;
  await waitFor(() => (isQuiet ? grid() : (find("[role=gridcell]:not(.sx-cell-waits)"), find("[role=slider]"))));
  return { store, asked: (what) => kernel.asked.filter((each) => each.do === what) };
}

describe("the Rows tab", () => {
  it("asks for one block and one set of headers, keys first", async () => {
    const { asked } = await shown();
    expect(asked("rows")).toMatchObject([{ first: 0, count: 100, columns: ["id", "origin", "delay", "notes"] }]);
    expect(asked("headers")).toMatchObject([{ columns: ["id", "origin", "delay", "notes"], all: false }]);
    expect(grid().getAttribute("aria-rowcount")).toBe("1000001");
    expect(header("origin").textContent).toContain("3 values");
    expect(header("delay").textContent).toContain("10 % NULL");
  });

  it("tells NULL and '' apart, and copies exact numbers", async () => {
    await shown();
    expect(find(".sx-cell-null").textContent).toBe("NULL");
    expect(find(".sx-cell-none").textContent).toBe("''");
    expect(find('[data-exact="12345"]').textContent).toBe("12,345");
  });

  it("says the only value of a column, and its share", async () => {
    await shown({ columns: [...COLUMNS, column("airport", "string"), column("note", "string")] });
    expect(header("airport").textContent).toContain("JFK, all rows");
    expect(header("note").textContent).toContain("late, 20 %");
    expect(document.querySelector('[aria-label="Filter note"]')).toBeNull();
  });

  it("asks once for a brush, and for rows and headers when it ends", async () => {
    const { asked, store } = await shown();
    fireEvent.pointerDown(bars("delay"), { button: 0, clientX: 1 });
    for (const clientX of [15, 50, 100, 60]) fireEvent.pointerMove(bars("delay"), { clientX });
    await waitFor(() => expect(find(".sx-rows-shown").textContent).toContain("5 rows"));
    expect([asked("cube").length, asked("rows").length, asked("headers").length]).toEqual([1, 1, 1]);
    fireEvent.pointerUp(bars("delay"), { clientX: 60 });
    expect(store.query.value.filters).toEqual([{ column: "delay", bars: [0, 1] }]);
    await waitFor(() => expect(find(".sx-rows-shown").textContent).toContain("500"));
    expect([asked("cube").length, asked("rows").length, asked("headers").length]).toEqual([1, 2, 2]);
  });

  it("filters by a click of a value, and no more by a second one", async () => {
    const { store } = await shown();
    const click = (clientX: number): void => {
      fireEvent.pointerDown(bars("origin"), { button: 0, clientX });
      fireEvent.pointerUp(bars("origin"), { clientX });
    };
    click(60);
    expect(store.query.value.filters).toEqual([{ column: "origin", value: 1 }]);
    await waitFor(() => expect(find(".sx-rows-chip").textContent).toContain("= JFK"));
    click(60);
    expect(store.query.value.filters).toEqual([]);
  });

  it("brushes by keyboard", async () => {
    const { asked, store } = await shown();
    const press = async (key: string, shiftKey = false): Promise<void> => {
      fireEvent.keyDown(bars("origin"), { key, shiftKey });
      await Promise.resolve();
    };
    await press("ArrowRight");
    await press("ArrowRight");
    await press("ArrowRight", true);
    expect(store.query.value.filters).toEqual([]);
    await waitFor(() => expect(asked("cube")).toHaveLength(1));
    expect(bars("origin").getAttribute("aria-valuetext")).toContain("JFK, LGA");
    await press("Enter");
    expect(store.query.value.filters).toEqual([{ column: "origin", bars: [1, 2] }]);
    await press("Escape");
    expect(store.query.value.filters).toEqual([]);
  });

  it("goes to the last row and back by keyboard", async () => {
    const { asked } = await shown();
    fireEvent.keyDown(grid(), { key: "End", ctrlKey: true });
    await waitFor(() => expect(asked("rows").at(-1)).toMatchObject({ first: 999_900, count: 100 }));
    await waitFor(() => find('[aria-rowindex="1000001"] .sx-cell-active'));
    expect(find(`[id="${grid().getAttribute("aria-activedescendant")}"]`).getAttribute("aria-colindex")).toBe("4");
    fireEvent.keyDown(grid(), { key: "Home", ctrlKey: true });
    await waitFor(() => find('[aria-rowindex="2"] .sx-cell-active[aria-colindex="1"]'));
    fireEvent.keyDown(grid(), { key: "PageDown" });
    await waitFor(() => expect(find(".sx-cell-active").parentElement?.getAttribute("aria-rowindex")).toBe("14"));
  });

  it("opens the value of a cell beside the rows", async () => {
    const { asked } = await shown();
    fireEvent.keyDown(grid(), { key: "End" });
    fireEvent.keyDown(grid(), { key: "Enter" });
    await waitFor(() => expect(find(".sx-tree").textContent).toBe("byada"));
    expect(asked("value")).toMatchObject([{ row: 0, column: "notes" }]);
    fireEvent.keyDown(grid(), { key: "Escape" });
    await waitFor(() => expect(document.querySelector(".sx-value")).toBeNull());
  });

  it("sorts by a click, and by more columns with Shift", async () => {
    const { store, asked } = await shown();
    fireEvent.click(sorter("delay"));
    await waitFor(() => expect(header("delay").getAttribute("aria-sort")).toBe("ascending"));
    fireEvent.click(sorter("origin"), { shiftKey: true });
    await waitFor(() => expect(header("origin").getAttribute("aria-sort")).toBe("ascending"));
    fireEvent.click(sorter("origin"), { shiftKey: true });
    const sorts = [{ column: "delay", descending: false }, { column: "origin", descending: true }];
    expect(store.query.value.sorts).toEqual(sorts);
    await waitFor(() => expect(asked("rows").at(-1)).toMatchObject({ query: { sorts } }));
    await waitFor(() => expect(header("origin").querySelector(".sx-head-order")?.textContent).toBe("2"));
    expect(asked("headers")).toHaveLength(1); // the order of rows says nothing about them
  });

  it("filters by what is typed in the menu of a header, until the chip is removed", async () => {
    const { store } = await shown();
    fireEvent.keyDown(sorter("delay"), { key: "ArrowDown", altKey: true });
    await waitFor(() => find(".sx-head-filter input"));
    fireEvent.input(find(".sx-head-filter input"), { target: { value: " > 100 " } });
    fireEvent.submit(find(".sx-head-filter"));
    expect(store.query.value.filters).toEqual([{ column: "delay", text: "> 100" }]);
    await waitFor(() => find('[aria-label="Remove the filter of delay"]'));
    fireEvent.click(find('[aria-label="Remove the filter of delay"]'));
    expect(store.query.value.filters).toEqual([]);
  });

  it("leaves only rows without a value", async () => {
    const { store } = await shown();
    fireEvent.click(find('[aria-label="Menu of delay"]'));
    await waitFor(() => find(".sx-menu"));
    fireEvent.click(button("Only rows without a value"));
    expect(store.query.value.filters).toMatchObject([{ text: "null" }]);
  });

  it("searches in text", async () => {
    const { store } = await shown();
    const field = find<HTMLInputElement>(".sx-rows-bar .sx-field");
    fireEvent.input(field, { target: { value: "fog" } });
    fireEvent.keyDown(field, { key: "Enter" });
    expect(store.query.value.search).toBe("fog");
    await waitFor(() => expect(find(".sx-rows-chip").textContent).toContain("has “fog”"));
  });

  it("hides columns that are found by name", async () => {
    await shown();
    fireEvent.click(button("Columns"));
    await waitFor(() => find(".sx-columns"));
    fireEvent.input(find(".sx-columns > input"), { target: { value: "del" } });
    await waitFor(() => expect(document.querySelectorAll(".sx-columns-item")).toHaveLength(1));
    fireEvent.click(find(".sx-columns-item input"));
    await waitFor(() => expect(document.querySelector('[role=columnheader][aria-label="delay"]')).toBeNull());
    expect(button("Columns").textContent).toContain("3 of 4");
  });

  it("makes columns wider by keyboard", async () => {
    await shown();
    const width = (): number => Number.parseInt(header("delay").style.width, 10);
    const before = width();
    fireEvent.keyDown(sorter("delay"), { key: "ArrowRight", altKey: true });
    await waitFor(() => expect(width()).toBe(before + 16));
  });

  it("draws the columns that are seen, of 2,000", async () => {
    const columns = Array.from({ length: 2_000 }, (_, i) => column(`c${i}`, "integer"));
    const { asked } = await shown({ columns });
    expect(document.querySelectorAll("[role=columnheader]").length).toBeLessThan(20);
    expect(asked("rows")[0]?.columns).toHaveLength(40);
    expect(grid().getAttribute("aria-colcount")).toBe("2000");
    fireEvent.keyDown(grid(), { key: "End" });
    await waitFor(() => expect((asked("rows").at(-1)?.columns as string[])[0]).toBe("c1960"));
  });

  it("reads the headers of a large version when it is told to", async () => {
    const { asked } = await shown({ unread: "1.2 GiB to read" });
    await waitFor(() => button("Read 1.2 GiB"));
    expect(asked("headers")).toHaveLength(1);
    fireEvent.click(button("Read 1.2 GiB"));
    await waitFor(() => find("[role=slider]"));
    expect(asked("headers").at(-1)).toMatchObject({ all: true });
    expect(document.querySelector(".sx-grid-unread")).toBeNull();
  });

  it("says that there are no rows", async () => {
    await shown({ rows: 0, fail: "headers" });
    await waitFor(() => expect(find(".sx-empty").textContent).toContain("t has no rows"));
  });

  it("says what went wrong, and tries again", async () => {
    const { asked } = await shown({ fail: "rows" });
    await waitFor(() => expect(find("[role=alert]").textContent).toContain("A file is gone."));
    fireEvent.click(button("Try again"));
    await waitFor(() => expect(asked("rows")).toHaveLength(2));
  });

  it("carries the rows to the SQL tab, and writes the footer", async () => {
    const { store } = await shown();
    expect(store.footer.value).toMatchObject({ line: "line", source: "1 file" });
    fireEvent.click(button("Open in SQL"));
    expect(store.tab.value).toBe("sql");
    expect(store.statement.value).toBe("SELECT *\nFROM t\nLIMIT 1000");
  });
});
