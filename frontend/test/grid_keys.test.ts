import { describe, expect, it } from "vitest";
import { fraction, fractionSpace, grouped, oneLine } from "../src/grid/cell_text";
import { moved, within } from "../src/grid/grid_keys";

const SIZE = { rows: 100, columns: 5, page: 10 };
const at = (row: number, column: number, key: string, isFar = false) => moved({ key, isFar }, { row, column }, SIZE);

describe("keys in a grid", () => {
  it("move by a cell, a screen, or to an end", () => {
    expect(at(3, 2, "ArrowDown")).toEqual({ row: 4, column: 2 });
    expect(at(3, 2, "ArrowRight")).toEqual({ row: 3, column: 3 });
    expect(at(3, 2, "ArrowRight", true)).toEqual({ row: 3, column: 4 });
    expect(at(3, 2, "PageDown")).toEqual({ row: 13, column: 2 });
    expect(at(3, 2, "PageUp")).toEqual({ row: 0, column: 2 });
    expect(at(3, 2, "End")).toEqual({ row: 3, column: 4 });
    expect(at(3, 2, "End", true)).toEqual({ row: 99, column: 4 });
    expect(at(3, 2, "Home", true)).toEqual({ row: 0, column: 0 });
  });

  it("stay inside, and lead to the headers from the first row", () => {
    expect(at(99, 4, "ArrowDown")).toEqual({ row: 99, column: 4 });
    expect(at(99, 4, "ArrowRight")).toEqual({ row: 99, column: 4 });
    expect(at(0, 2, "ArrowUp")).toBe("headers");
    expect(at(0, 2, "a")).toBeNull();
    expect(within({ row: 5, column: 5 }, 0, 0)).toEqual({ row: 0, column: 0 });
  });
});

describe("the text of cells", () => {
  it("has digits in groups from five digits on, and stays exact", () => {
    expect(["2013", "12345", "-1234567", "1234567.25", "12345678901234567890123"].map(grouped)).toEqual([
      "2013",
      "12,345",
      "-1,234,567",
      "1,234,567.25",
      "12,345,678,901,234,567,890,123",
    ]);
    expect(["8", "8.5", "8.25", null].map((each) => fractionSpace(each, fraction("8.25")))).toEqual([
      "\u2008\u2007\u2007",
      "\u2007",
      "",
      "\u2008\u2007\u2007",
    ]);
    expect(["1e22", "NaN", "0.123456"].map(grouped)).toEqual(["1e22", "NaN", "0.123456"]);
  });

  it("is one line", () => {
    expect(oneLine("a\r\nb\nc\td")).toBe("a ⏎ b ⏎ c ⇥ d");
  });
});
