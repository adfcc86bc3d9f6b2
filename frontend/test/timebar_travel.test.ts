import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Store } from "../src/store";
import { Travel } from "../src/timebar_travel";
import { spoken, wordsOf } from "../src/version_words";
import { FakeKernel, tablesOf } from "./fake_kernel";

async function opened(options = {}): Promise<{ store: Store; travel: Travel }> {
  const store = new Store(new FakeKernel({ table: "flights", version: 18, ...options }, tablesOf()));
  await vi.advanceTimersByTimeAsync(10);
  return { store, travel: new Travel(store, store.opened.value.value!.versions) };
}

vi.setConfig({ testTimeout: 60_000 }); // a loaded machine may take seconds for what takes milliseconds
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("one handle", () => {
  it("is followed by the page when it rests or is released", async () => {
    const { store, travel } = await opened();
    travel.grab(4, false);
    travel.to(5);
    expect(travel.places.value).toEqual({ version: 5, before: null });
    vi.advanceTimersByTime(60);
    travel.to(6);
    vi.advanceTimersByTime(60);
    expect(store.version.value).toBe(18);
    vi.advanceTimersByTime(30);
    expect(store.version.value).toBe(7);
    expect(travel.isMoving).toBe(true);
    travel.to(9);
    travel.settle();
    expect(store.version.value).toBe(10);
    expect(travel.isMoving).toBe(false);
  });

  it("rests after a key without a release", async () => {
    const { store, travel } = await opened();
    travel.step("version", 3);
    vi.advanceTimersByTime(100);
    expect(store.version.value).toBe(4);
    expect(travel.isMoving).toBe(false);
  });

  it("goes back when it is cancelled", async () => {
    const { store, travel } = await opened();
    travel.grab(2, false);
    travel.cancel();
    vi.advanceTimersByTime(100);
    expect(travel.places.value.version).toBe(17);
    expect(store.version.value).toBe(18);
  });
});

describe("two handles", () => {
  it("open the changes, the older first", async () => {
    const { store, travel } = await opened({ version: 10 });
    travel.grab(13, true);
    travel.settle();
    expect([store.before.value, store.version.value, store.tab.value]).toEqual([10, 14, "changes"]);
  });

  it("may cross while one is dragged, and are never at one place", async () => {
    const { store, travel } = await opened({ version: 10, before: 5 });
    travel.grab(4, false);
    expect(travel.places.value).toEqual({ version: 9, before: 4 });
    travel.to(9);
    expect(travel.places.value).toEqual({ version: 9, before: 8 });
    travel.to(12);
    travel.settle();
    expect([store.before.value, store.version.value]).toEqual([10, 13]);
  });

  it("stay on their sides by keys", async () => {
    const { travel } = await opened({ version: 10, before: 9 });
    travel.step("before", 12);
    expect(travel.places.value).toEqual({ version: 9, before: 8 });
    travel.cancel();
    travel.step("version", 2);
    expect(travel.places.value).toEqual({ version: 9, before: 8 });
  });

  it("begin with the version before, and end", async () => {
    const { store, travel } = await opened({ version: 10 });
    travel.compare();
    expect([store.before.value, store.version.value]).toEqual([9, 10]);
    travel.stopComparing();
    expect(store.before.value).toBeNull();
  });

  it("compare the first version with the second", async () => {
    const { store, travel } = await opened({ version: 1 });
    travel.compare();
    expect([store.before.value, store.version.value]).toEqual([1, 2]);
  });
});

it("says a version in words", async () => {
  const { store } = await opened();
  const { versions } = store.opened.value.value!;
  expect(spoken(versions, 17)).toMatch(/^snapshot 18, \d{4}-\d\d-\d\d \d\d:\d\d UTC, ingest \+28,135 rows$/);
  const words = wordsOf(versions, 17);
  expect(words.did).toBe("Ingest +28,135 rows");
  expect(words.size).toBe("478,295 rows, 11.2 MiB");
});
