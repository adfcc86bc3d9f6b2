import { describe, expect, test } from "vitest";
import {
  blockOf, byDistance, comparedWith, distance, gridColumns, isUndone, messageOf, pairedBars,
} from "../src/change_view";
import type { ChangesAnswer, ColumnChange, Versions } from "../src/protocol";

const versions: Versions = {
  number: [1, 2, 5],
  committed: [10, 20, 50],
  kind: ["create", "ingest", "delete"],
  change: ["", "+2 rows", "−1 row"],
  message: ["", "first", ""],
  rows: [0, 2, 1],
  bytes: [0, 1, 1],
  savepoints: { 2: ["good"] },
};

const side = (bars: string[], counts: number[], nulls = 0) => ({
  bars,
  counts,
  nulls,
  rows: counts.reduce((a, b) => a + b, nulls),
  distinct: bars.length,
});

test("a version is compared with the chosen one, else with the one before", () => {
  expect(comparedWith(versions, 5, null)).toBe(1);
  expect(comparedWith(versions, 5, 1)).toBe(0);
  expect(comparedWith(versions, 5, 5)).toBe(1);
  expect(comparedWith(versions, 1, null)).toBeLessThan(0);
  expect(comparedWith(versions, 5, 3)).toBeLessThan(0);
});

test("a rollback says so, and what it did is not offered again", () => {
  const rolledBack = { kind: "rollback", message: "to snapshot 9" };
  expect(messageOf(rolledBack)).toBe("Rolled back to 9");
  expect(messageOf({ ...rolledBack, message: "bad load" })).toBe("bad load");
  expect(messageOf({ ...rolledBack, kind: "ingest" })).toBe("to snapshot 9");
  const same = { filesOf: { added: 0, removed: 0 }, partitionsChanged: 0 } as ChangesAnswer;
  expect(isUndone("rollback", same)).toBe(true);
  expect(isUndone("rollback", { ...same, filesOf: { added: 1, removed: 0 } })).toBe(false);
  expect(isUndone("split", same)).toBe(false);
});

describe("changed rows", () => {
  const answer = { columns: ["k", "v"], keys: ["k"] } as ChangesAnswer;
  const rows = [
    { kind: "added" as const, cells: ["1", "a"] },
    { kind: "changed" as const, cells: ["2", "old"], after: ["2", "new"], differs: [false, true] },
  ];

  test("are blocks with the values after, and what they were", () => {
    const block = blockOf(answer, rows, { first: 0, count: 10, columns: ["v", "k"], slot: 0 });
    expect(block.rows).toEqual([
      ["a", "1"],
      ["new", "2"],
    ]);
    expect(block.marks).toEqual([{ kind: "added" }, { kind: "changed", before: ["old", "2"], differs: [true, false] }]);
    expect(block).toMatchObject({ total: 2, last: true });
    expect(blockOf(answer, rows, { first: 0, count: 1, columns: ["k"], slot: 0 }).last).toBe(false);
  });

  test("have the types of the schema, and columns that it no longer has", () => {
    const schema = [
      {
        name: "k",
        type: "long",
        kind: "integer",
        role: "sort key",
        nullable: false,
        default: null,
        comment: "",
      } as const,
    ];
    expect(gridColumns(answer, schema).map((each) => [each.name, each.kind, each.role])).toEqual([
      ["k", "integer", "sort key"],
      ["v", "string", ""],
    ]);
  });
});

describe("columns", () => {
  const same: ColumnChange = { name: "same", before: side(["a"], [10]), after: side(["a"], [20]) };
  const moved: ColumnChange = { name: "moved", before: side(["a", "b"], [10, 0]), after: side(["b", "c"], [5, 5]) };
  const some: ColumnChange = { name: "some", before: side(["a"], [10]), after: side(["a"], [9], 1) };
  const born: ColumnChange = { name: "born", before: null, after: side(["x"], [1]) };

  test("that differ most are first", () => {
    expect(distance(same)).toBe(0);
    expect(distance(moved)).toBe(1);
    expect(distance(some)).toBeCloseTo(0.1);
    const { moved: first, same: rest } = byDistance([same, some, moved, born]);
    expect(first.map((each) => each.name)).toEqual(["moved", "born", "some"]);
    expect(rest).toEqual(["same"]);
  });

  test("have their bars over one axis", () => {
    expect(pairedBars(moved)).toEqual([
      { label: "b", before: 0, after: 5 },
      { label: "c", before: 0, after: 5 },
      { label: "a", before: 10, after: 0 },
    ]);
    expect(pairedBars(born)).toEqual([{ label: "x", before: 0, after: 1 }]);
  });
});
