import { describe, expect, it } from "vitest";
import { isWhole, pan, reveal, whole, zoom } from "../src/axis_view";

describe("a view of the versions", () => {
  it("zooms around a place and never past its ends", () => {
    const near = zoom(whole(1000), 1000, 0.5, 500, 6);
    expect(near).toEqual({ first: 250, last: 750 });
    expect(zoom(near, 1000, 0.5, 250, 6).first).toBe(250);
    expect(isWhole(zoom(near, 1000, 100, 300, 6), 1000)).toBe(true);
    const nearest = zoom(near, 1000, 0.0001, 500, 6);
    expect(nearest.last - nearest.first).toBe(6);
    expect(isWhole(zoom(whole(3), 3, 0.5, 1, 6), 3)).toBe(true);
  });

  it("pans and reveals", () => {
    const view = { first: 100, last: 200 };
    expect(pan(view, 1000, -500)).toEqual({ first: 0, last: 100 });
    expect(pan(view, 1000, 5000)).toEqual({ first: 900, last: 1000 });
    expect(reveal(view, 1000, 150, 151)).toBe(view);
    expect(reveal(view, 1000, 90, 91)).toEqual({ first: 90, last: 190 });
    expect(reveal(view, 1000, 200, 201)).toEqual({ first: 101, last: 201 });
  });
});

describe("a view of key space", () => {
  it("keeps the place under the pointer and never leaves key space", () => {
    const near = zoom(whole(1), 1, 0.5, 0.5, 0.01);
    expect(near).toEqual({ first: 0.25, last: 0.75 });
    expect(zoom(near, 1, 10, 0.5, 0.01)).toEqual(whole(1));
    expect(zoom(whole(1), 1, 0.5, 1, 0.01)).toEqual({ first: 0.5, last: 1 });
    expect(pan(near, 1, 5)).toEqual({ first: 0.5, last: 1 });
  });

  it("moves as little as needed to show a leaf", () => {
    expect(reveal({ first: 0, last: 0.5 }, 1, 0.5, 0.75)).toEqual({ first: 0.25, last: 0.75 });
    expect(reveal({ first: 0.5, last: 1 }, 1, 0, 0.25)).toEqual({ first: 0, last: 0.5 });
    expect(reveal({ first: 0, last: 0.5 }, 1, 0.2, 0.9)).toEqual({ first: 0.2, last: 0.7 });
  });
});
