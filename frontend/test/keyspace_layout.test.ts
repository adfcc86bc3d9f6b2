import { describe, expect, test } from "vitest";
import { whole } from "../src/axis_view";
import {
  boundaries,
  frames,
  heatOf,
  layers,
  leafAt,
  listed,
  median,
  strip,
} from "../src/keyspace_layout";

const files = (first: number[], last: number[], bytes = first.map(() => 10)) => ({
  name: first.map((_, index) => `f${index}`),
  first,
  last,
  rows: first.map(() => 1),
  bytes,
  deleted: first.map(() => 0),
  job: first.map(() => -1),
});

describe("the strip of leaves", () => {
  test("is to the scale of rows, and an empty leaf stays visible", () => {
    const edges = boundaries([300, 0, 100], false);
    expect(edges[0]).toBe(0);
    expect(edges[3]).toBe(1);
    expect(edges[1]! - edges[0]!).toBeCloseTo(3 * (edges[3]! - edges[2]!), 5);
    expect(edges[2]! - edges[1]!).toBeGreaterThan(0);
  });

  test("can have equal widths", () => {
    expect([...boundaries([300, 0], true)]).toEqual([0, 0.5, 1]);
    expect([...boundaries([0, 0], false)]).toEqual([0, 0.5, 1]);
    expect([...boundaries([], false)]).toEqual([0]);
  });

  test("finds the leaf at a place", () => {
    const edges = boundaries([1, 1, 1, 1], true);
    expect([0, 0.24, 0.25, 0.9, 1].map((place) => leafAt(edges, place))).toEqual([0, 0, 1, 3, 3]);
  });

  test("names leaves by the median of those with rows", () => {
    expect(median([0, 10, 20, 30, 0])).toBe(20);
    expect(median([10, 20])).toBe(15);
    expect(median([0])).toBe(0);
    expect([0, 9, 10, 30, 31, 60, 61].map((rows) => heatOf(rows, 20))).toEqual(
      ["empty", "small", "usual", "usual", "large", "large", "hot"],
    );
  });

  test("has no more pieces than pixels, and a hot leaf among many is seen", () => {
    const rows = Array.from({ length: 50_000 }, () => 10);
    const heats = rows.map((_, leaf) => (leaf === 12_345 ? "hot" : "usual") as "hot" | "usual");
    const edges = boundaries(rows, true);
    const pieces = strip(edges, heats, whole(1), 800);
    expect(pieces.length).toBeLessThanOrEqual(800);
    const hot = pieces.filter((piece) => piece.heat === "hot");
    expect(hot).toHaveLength(1);
    expect(hot[0]!.first).toBeLessThanOrEqual(12_345);
    expect(hot[0]!.last).toBeGreaterThanOrEqual(12_345);
    expect(pieces.reduce((sum, each) => sum + each.last - each.first + 1, 0)).toBe(50_000);
  });

  test("shows only the leaves of a view", () => {
    const pieces = strip(
      boundaries([1, 1, 1, 1], true),
      ["usual", "usual", "usual", "usual"],
      { first: 0.25, last: 0.75 },
      100,
    );
    expect(pieces[0]).toMatchObject({ x: 0, width: 50, first: 1 });
    expect(pieces[1]).toMatchObject({ x: 50, width: 50, first: 2 });
  });
});

describe("layers of files", () => {
  const edges = boundaries([1, 1, 1, 1], true);

  test("files beside each other share a lane, files over each other do not", () => {
    const made = layers(edges, files([0, 2, 0], [1, 3, 3]), whole(1), 400, 10);
    if (!("bars" in made)) throw new Error("bars");
    expect(made.lanes).toBe(2);
    expect(made.bars.map((bar) => [bar.file, bar.lane])).toEqual([
      [2, 0],
      [0, 1],
      [1, 1],
    ]);
  });

  test("become counts by pixel when there are too many lanes", () => {
    const made = layers(edges, files([0, 0, 0, 2], [1, 1, 3, 2]), whole(1), 4, 1);
    expect(made).toEqual({ counts: [3, 3, 2, 1], most: 3, shown: 4 });
  });

  test("100,000 files over 50,000 leaves are counted in a moment", () => {
    const many = Array.from({ length: 100_000 }, (_, file) => file >> 1);
    const wide = boundaries(
      Array.from({ length: 50_000 }, () => 1),
      true,
    );
    const began = performance.now();
    const made = layers(wide, files(many, many), whole(1), 1000, 12);
    expect(performance.now() - began).toBeLessThan(5000);
    if (!("counts" in made)) throw new Error("counts");
    expect(made.counts).toHaveLength(1000);
    expect(made.most).toBeGreaterThanOrEqual(100);
    const near = layers(wide, files(many, many), { first: 0, last: 0.001 }, 1000, 12);
    expect("bars" in near).toBe(true);
  });

  test("what a compaction would merge has a frame over its leaf; near ones are joined", () => {
    const jobs = [
      { leaf: 3, files: 4, bytes: 40 },
      { leaf: 0, files: 2, bytes: 20 },
    ];
    expect(frames(edges, jobs, whole(1), 400).map((each) => [each.x, each.width, each.files])).toEqual([
      [0, 100, 2],
      [300, 100, 4],
    ]);
    const narrow = frames(
      edges,
      [0, 1].map((leaf) => ({ leaf, files: 2, bytes: 1 })),
      whole(1),
      8,
    );
    expect(narrow).toEqual([{ x: 0, width: 4, jobs: 2, files: 4, bytes: 2 }]);
    expect(frames(edges, jobs, { first: 0.3, last: 0.6 }, 400)).toEqual([]);
  });
});

test("leaves are found by their range, in key order or by rows", () => {
  const leaves = {
    id: ["a", "b", "c"],
    range: ["up to EWR", "EWR to JFK", "from JFK"],
    low: [],
    rows: [1, 3, 2],
    bytes: [],
    files: [],
  };
  expect(listed(leaves, "", false)).toEqual([0, 1, 2]);
  expect(listed(leaves, "", true)).toEqual([1, 2, 0]);
  expect(listed(leaves, " ewr ", false)).toEqual([0, 1]);
});
