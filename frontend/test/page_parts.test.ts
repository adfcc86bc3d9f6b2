import { expect, it } from "vitest";
import { HEIGHT, heightFor, heightOf } from "../src/height";
import { familyOf, mostNotable } from "../src/kinds";
import { stepTo } from "../src/menu";
import { isSaving } from "../src/elements";

it("the height changes by keys and has limits", () => {
  expect(heightFor("ArrowDown", 640)).toBe(656);
  expect(heightFor("ArrowUp", HEIGHT.least)).toBe(HEIGHT.least);
  expect(heightFor("x", 640)).toBeNull();
  expect([3, 10, 100].map((rows) => heightOf(rows, 28))).toEqual([360, 450, 640]);
});

it("a menu goes round", () => {
  expect(stepTo("ArrowDown", 2, 3)).toBe(0);
  expect(stepTo("ArrowUp", 0, 3)).toBe(2);
  expect(stepTo("ArrowUp", -1, 3)).toBe(2);
  expect(stepTo("Home", 2, 3)).toBe(0);
  expect(stepTo("a", 0, 3)).toBeNull();
});

it("kinds of commits have families, the most notable first", () => {
  expect(familyOf("bulk_import")).toBe("added");
  expect(familyOf("collect-garbage")).toBe("upkeep");
  expect(familyOf("something new")).toBe("upkeep");
  expect(mostNotable(["ingest", "delete", "compact"])).toBe("removed");
  expect(mostNotable([])).toBe("upkeep");
});

it("only saving is left to the host", () => {
  const key = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, key: "s" };
  expect(isSaving({ ...key, ctrlKey: true })).toBe(true);
  expect(isSaving({ ...key, metaKey: true, key: "S" })).toBe(true);
  expect(isSaving(key)).toBe(false);
  expect(isSaving({ ...key, ctrlKey: true, key: "c" })).toBe(false);
});
