import { describe, expect, it } from "vitest";
import {
  barsOf,
  barsText,
  brushed,
  chipText,
  cubeRows,
  isFiltered,
  movedBars,
  sortedBy,
  textOf,
  withBars,
  withoutBars,
  withoutFilter,
  withText,
} from "../src/filters";
import type { CubeAnswer, Header, Query } from "../src/protocol";

const NONE: Query = { filters: [], sorts: [], search: "" };

function header(parts: Partial<Header>): Header {
  return { ranges: true, bars: [], counts: [], of: [], nulls: 0, rows: 0, distinct: 0, exact: true, ...parts };
}

const LABELS = ["≤ 0", "0 < … ≤ 10", "10 < … ≤ 20"];
const DELAY = header({ bars: LABELS, counts: [5, 3, 2], of: [5, 3, 2], rows: 12, nulls: 2 });
const ORIGIN = header({ ranges: false, bars: ["EWR", "JFK", ""], counts: [6, 4, 2], of: [6, 4, 2], rows: 12 });

describe("a query", () => {
  it("has one choice of bars and one typed text a column", () => {
    let query = withBars(NONE, "delay", [2, 1], DELAY);
    query = withText(query, "delay", " > 5 ");
    query = withBars(query, "delay", [0, 1], DELAY);
    expect(query.filters).toEqual([{ column: "delay", text: "> 5" }, { column: "delay", bars: [0, 1] }]);
    expect(barsOf(query, "delay")).toEqual([0, 1]);
    expect(textOf(query, "delay")).toBe("> 5");
    expect(withoutBars(query, "delay").filters).toEqual([{ column: "delay", text: "> 5" }]);
    expect(withText(query, "delay", " ").filters).toEqual([{ column: "delay", bars: [0, 1] }]);
    expect(withBars(query, "delay", null, DELAY).filters).toHaveLength(1);
  });

  it("names one bar of values as a value", () => {
    expect(withBars(NONE, "origin", [1, 1], ORIGIN).filters).toEqual([{ column: "origin", value: 1 }]);
    expect(withBars(NONE, "origin", [0, 1], ORIGIN).filters).toEqual([{ column: "origin", bars: [0, 1] }]);
    expect(barsOf(withBars(NONE, "origin", [1, 1], ORIGIN), "origin")).toEqual([1, 1]);
    expect(barsOf(NONE, "origin")).toBeNull();
  });

  it("loses a filter whose chip is removed", () => {
    const query = withText(withBars(NONE, "origin", [1, 1], ORIGIN), "delay", "null");
    const [first] = query.filters;
    expect(isFiltered(query)).toBe(true);
    expect(withoutFilter(query, first as never).filters).toEqual([{ column: "delay", text: "null" }]);
    expect(isFiltered({ ...NONE, search: " " })).toBe(false);
  });

  it("is sorted up, down, and no more", () => {
    const up = sortedBy([], "a", false);
    expect(up).toEqual([{ column: "a", descending: false }]);
    const down = sortedBy(up, "a", false);
    expect(down).toEqual([{ column: "a", descending: true }]);
    expect(sortedBy(down, "a", false)).toEqual([]);
    const two = sortedBy(down, "b", true);
    expect(two).toEqual([{ column: "a", descending: true }, { column: "b", descending: false }]);
    expect(sortedBy(two, "a", true)).toEqual([{ column: "b", descending: false }]);
    expect(sortedBy(two, "b", false)).toEqual([{ column: "b", descending: true }]);
  });
});

describe("a brush", () => {
  const cube: CubeAnswer = {
    version: 1,
    column: "delay",
    rows: [5, 3, 2],
    columns: { origin: { counts: [[4, 1, 0], [1, 2, 0], [0, 1, 1]], nulls: [0, 0, 1] } },
  };

  it("counts the other columns from the cube", () => {
    const shown = brushed({ delay: DELAY, origin: ORIGIN }, cube, [2, 1]);
    expect(shown.origin).toMatchObject({ counts: [1, 3, 1], of: [6, 4, 2], nulls: 1, rows: 5 });
    expect(shown.delay).toMatchObject({ counts: [0, 3, 2], nulls: 0, rows: 5 });
    expect(cubeRows(cube, [0, 2])).toBe(10);
  });

  it("leaves a column that the cube has not as it is", () => {
    expect(brushed({ other: ORIGIN }, cube, [0, 0]).other).toBe(ORIGIN);
  });

  it("is fast enough for 60 frames a second with 40 columns of 20 bars", () => {
    const bars = Array.from({ length: 20 }, (_, i) => `≤ ${i}`);
    const large: CubeAnswer = { version: 1, column: "c0", rows: bars.map(() => 1), columns: {} };
    const headers: Record<string, Header> = {};
    for (let i = 0; i < 40; i++) {
      headers[`c${i}`] = header({ bars, counts: bars.map(() => 9), of: bars.map(() => 9) });
      large.columns[`c${i}`] = { counts: bars.map(() => bars.map(() => 1)), nulls: bars.map(() => 0) };
    }
    const begin = performance.now();
    for (let i = 0; i < 100; i++) brushed(headers, large, [0, 19]);
    expect((performance.now() - begin) / 100).toBeLessThan(8);
  });
});

describe("bars by keyboard", () => {
  it("move, extend and stay within the header", () => {
    expect(movedBars([1, 1], 1, "ArrowRight", false, 3)).toEqual([[2, 2], 2]);
    expect(movedBars([2, 2], 2, "ArrowRight", false, 3)).toEqual([[2, 2], 2]);
    expect(movedBars([1, 1], 1, "ArrowRight", true, 3)).toEqual([[1, 2], 1]);
    expect(movedBars([1, 2], 1, "ArrowLeft", true, 3)).toEqual([[1, 1], 1]);
    expect(movedBars([1, 1], 1, "ArrowLeft", true, 3)).toEqual([[0, 1], 1]);
    expect(movedBars([0, 1], 1, "End", true, 3)).toEqual([[1, 2], 1]);
    expect(movedBars([1, 2], 1, "Home", false, 3)).toEqual([[0, 0], 0]);
  });
});

describe("texts", () => {
  it("join ranges", () => {
    expect(barsText(DELAY, [1, 2])).toBe("> 0 and ≤ 20");
    expect(barsText(DELAY, [0, 1])).toBe("≤ 10");
    expect(barsText(DELAY, [2, 2])).toBe("> 10 and ≤ 20");
    expect(barsText(header({ bars: ["x", "y"] }), [0, 1])).toBe("x to y");
  });

  it("list values", () => {
    expect(barsText(ORIGIN, [0, 2])).toBe("EWR, JFK, ''");
    const many = header({ ranges: false, bars: ["a", "b", "c", "d"] });
    expect(barsText(many, [0, 3])).toBe("a, b and 2 more");
  });

  it("name a filter for its chip", () => {
    expect(chipText({ column: "delay", bars: [1, 2] }, DELAY)).toEqual({ column: "delay", condition: "> 0 and ≤ 20" });
    expect(chipText({ column: "origin", value: 1 }, ORIGIN).condition).toBe("= JFK");
    expect(chipText({ column: "origin", bars: [0, 1] }, ORIGIN).condition).toBe("EWR, JFK");
    expect(chipText({ column: "a", bars: [0, 1] }, null).condition).toBe("…");
    expect(chipText({ column: "a", text: "null" }, null).condition).toBe("is NULL");
    expect(chipText({ column: "a", text: "Not null" }, null).condition).toBe("is not NULL");
    expect(chipText({ column: "a", text: "> 5" }, null).condition).toBe("> 5");
    expect(chipText({ column: "a", text: "1 .. 9" }, null).condition).toBe("1 .. 9");
    expect(chipText({ column: "a", text: "fog" }, null).condition).toBe("has “fog”");
  });
});
