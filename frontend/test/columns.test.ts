import { describe, expect, it } from "vitest";
import {
  CHUNK,
  chunksOf,
  keysFirst,
  LEAST_WIDTH,
  matching,
  namesOf,
  OWN_LAYOUT,
  ownWidth,
  shownColumns,
  stuckPins,
  withHidden,
  withPin,
  withWidth,
} from "../src/grid/columns";
import type { GridColumn } from "../src/grid/source";

function column(name: string, role: GridColumn["role"] = ""): GridColumn {
  return { name, type: "string", kind: "string", role: role as "" };
}

const COLUMNS = keysFirst([column("a"), column("at", "sort key"), column("b"), column("id", "row key")]);

describe("the order of columns", () => {
  it("has the row keys first, then the sort keys", () => {
    expect(COLUMNS.map(({ name }) => name)).toEqual(["id", "at", "a", "b"]);
  });

  it("pins the keys until a user pins others", () => {
    expect(shownColumns(COLUMNS, OWN_LAYOUT)).toEqual({ pinned: ["id", "at"], others: ["a", "b"] });
    const more = withPin(COLUMNS, OWN_LAYOUT, "b", true);
    expect(shownColumns(COLUMNS, more)).toEqual({ pinned: ["id", "at", "b"], others: ["a"] });
    const fewer = withPin(COLUMNS, more, "id", false);
    expect(shownColumns(COLUMNS, fewer)).toEqual({ pinned: ["at", "b"], others: ["id", "a"] });
  });

  it("leaves hidden columns out, and forgets columns that are gone", () => {
    const layout = withHidden({ ...OWN_LAYOUT, pinned: ["id", "gone"] }, ["a", "id"], true);
    expect(shownColumns(COLUMNS, layout)).toEqual({ pinned: [], others: ["at", "b"] });
    expect(withHidden(layout, ["a"], false).hidden).toEqual(["id"]);
  });

  it("lets pinned columns go where they would fill the window", () => {
    expect(stuckPins([100, 100, 100], 1_000)).toBe(3);
    expect(stuckPins([100, 100, 100], 400)).toBe(2);
    expect(stuckPins([400], 400)).toBe(0);
  });
});

describe("widths", () => {
  it("fit the content, not less than the least and not more than a part of a screen", () => {
    const short = ownWidth(column("a"), ["x"], 0);
    expect(short).toBeGreaterThanOrEqual(LEAST_WIDTH);
    expect(ownWidth(column("a"), ["a value of thirty characters.."], 0)).toBeGreaterThan(200);
    expect(ownWidth(column("a"), ["x".repeat(900)], 0)).toBe(280);
    expect(ownWidth(column("a"), ["x"], 112)).toBe(112);
  });

  it("have room for all digits of a number and the signs between them", () => {
    const number: GridColumn = { name: "n", type: "long", kind: "integer" };
    expect(ownWidth(number, ["1234567890"], 0)).toBeGreaterThan(13 * 8 + 16);
  });

  it("have room for what a value was", () => {
    const pair = ownWidth(column("a"), ["<b>wrong</b>"], 0, ["<b>late</b>"]);
    expect(pair).toBeGreaterThan(ownWidth(column("a"), ["<b>wrong</b><b>late</b>"], 0));
    expect(ownWidth(column("a"), ["new"], 0, ["x".repeat(900)])).toBe(280);
  });

  it("count wide characters as two", () => {
    expect(ownWidth(column("a"), ["東京都新宿区西新宿"], 0)).toBeGreaterThan(ownWidth(column("a"), ["abcdefghi"], 0));
  });

  it("stay within limits when a user drags", () => {
    expect(withWidth(OWN_LAYOUT, "a", 3).widths.a).toBe(LEAST_WIDTH);
    expect(withWidth(OWN_LAYOUT, "a", 99_999).widths.a).toBe(800);
  });
});

describe("chunks of columns", () => {
  const many = Array.from({ length: 2_000 }, (_, i) => column(`c${i}`));

  it("are those of the columns that are seen", () => {
    expect(chunksOf(many, ["c0", "c39"])).toEqual([0]);
    expect(chunksOf(many, ["c1990", "c0", "unknown"])).toEqual([0, 49]);
    expect(namesOf(many, [0, 49])).toHaveLength(2 * CHUNK);
    expect(namesOf(many, [49])[0]).toBe("c1960");
  });

  it("are found by words of a name", () => {
    expect(matching(many, "C 1999").map(({ name }) => name)).toEqual(["c1999"]);
    expect(matching(many, "99 119").map(({ name }) => name)).toEqual(["c1199"]);
    expect(matching(many, " ")).toHaveLength(2_000);
  });
});
