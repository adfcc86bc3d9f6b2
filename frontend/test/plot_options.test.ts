import { describe, expect, test } from "vitest";
import type { ChartAnswer } from "../src/protocol";
import { filled, isLying, plotOptions, tip, titled } from "../src/sql/plot_options";

const answer: ChartAnswer = {
  mark: "bar",
  title: "flights by origin",
  x: { label: "origin", kind: "name", order: ["EWR", "JFK"] },
  y: { label: "flights" },
  color: null,
  points: [
    { x: "EWR", y: 120_835 },
    { x: "JFK", y: 0.30000000000000004 },
  ],
  notes: [],
  line: "",
};

describe("a chart", () => {
  test("has a title for people", () => {
    expect(titled(answer.title)).toBe("Flights by origin");
  });

  test("lies when the names of its bars would collide", () => {
    expect(isLying(answer, 400)).toBe(false);
    const many = Array.from({ length: 30 }, (_, index) => `airport ${index}`);
    const wide = { ...answer, x: { ...answer.x, order: many } };
    expect(isLying(wide, 800)).toBe(true);
    expect(plotOptions(wide, [], { width: 800, height: 200 }).height).toBe(30 * 24 + 24);
    expect(plotOptions(answer, [], { width: 400, height: 200 }).height).toBe(200);
  });

  test("says what a point is, with numbers that are read", () => {
    expect(tip(answer, answer.points[0]!)).toBe("origin: EWR\nflights: 120,835");
    expect(tip(answer, answer.points[1]!)).toBe("origin: JFK\nflights: 0.3");
    const time = {
      ...answer,
      x: { label: "month", kind: "time" as const },
      color: { label: "origin", order: ["EWR"] },
    };
    expect(tip(time, { x: Date.UTC(2013, 0), y: 2, color: "EWR" })).toBe("month: 2013-01-01\norigin: EWR\nflights: 2");
  });

  test("stacks areas over points that are missing", () => {
    const points = [
      { x: 1, y: 5, color: "a" },
      { x: 2, y: 6, color: "b" },
    ];
    expect(filled(points, ["a", "b"])).toEqual([
      { x: 1, y: 5, color: "a" },
      { x: 2, y: 0, color: "a" },
      { x: 1, y: 0, color: "b" },
      { x: 2, y: 6, color: "b" },
    ]);
  });
});
