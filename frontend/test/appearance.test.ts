import { expect, it } from "vitest";
import { brightness, parseColor } from "../src/appearance";

it("reads colours as browsers compute them", () => {
  expect(parseColor("rgb(255, 0, 10)")).toEqual([255, 0, 10, 1]);
  expect(parseColor("rgba(0, 0, 0, 0)")).toEqual([0, 0, 0, 0]);
  expect(parseColor("color(srgb 1 0.5 0 / 0.5)")).toEqual([255, 127.5, 0, 0.5]);
  expect(parseColor("transparent")).toBeNull();
  expect(brightness([255, 255, 255, 1])).toBeCloseTo(1);
  expect(brightness([17, 17, 17, 1])).toBeLessThan(0.1);
});
