// @vitest-environment jsdom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/preact";
import { afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { Store } from "../src/store";
import { TimeBar } from "../src/timebar";
import { FakeKernel, tablesOf } from "./fake_kernel";

// A loaded machine may take seconds for what takes milliseconds.
configure({ asyncUtilTimeout: 10_000 });
vi.setConfig({ testTimeout: 60_000 });

class NoObserver {
  observe(): void {}
  disconnect(): void {}
}

beforeAll(() => void Object.assign(globalThis, { ResizeObserver: NoObserver }));
beforeEach(() => void vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(900));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

async function shown(version = 18, count = 18): Promise<Store> {
  const store = new Store(new FakeKernel({ table: "flights", version, tab: "schema" }, tablesOf({ count })));
  const fullScreen = { isFull: false, toggle: () => undefined };
  render(<TimeBar store={store} picker={false} narrow={false} folded={false} fullScreen={fullScreen} />);
  await waitFor(() => screen.getByRole("slider", { name: "Version" }));
  return store;
}

it("says what its handle is at, and moves by keys", async () => {
  const store = await shown();
  const handle = screen.getByRole("slider", { name: "Version" });
  expect(handle.getAttribute("aria-valuetext")).toMatch(/^snapshot 18, .* UTC, ingest \+28,135 rows$/);
  fireEvent.keyDown(handle, { key: "ArrowLeft" });
  await waitFor(() => expect(handle.getAttribute("aria-valuenow")).toBe("17"));
  await waitFor(() => expect(store.version.value).toBe(17));
  expect(screen.getByText("Go to newest")).toBeTruthy();
});

it("compares by a button and by Shift with a key", async () => {
  const store = await shown();
  fireEvent.click(screen.getByRole("button", { name: "Compare" }));
  await waitFor(() => screen.getByRole("slider", { name: "Compared with version" }));
  expect([store.before.value, store.version.value, store.tab.value]).toEqual([17, 18, "changes"]);
  fireEvent.keyDown(screen.getByRole("slider", { name: "Compared with version" }), { key: "Delete" });
  await waitFor(() => expect(screen.queryByRole("slider", { name: "Compared with version" })).toBeNull());
  fireEvent.keyDown(screen.getByRole("slider", { name: "Version" }), { key: "Home", shiftKey: true });
  await waitFor(() => expect([store.before.value, store.version.value]).toEqual([1, 18]));
});

it("offers to roll back and to save at the handle", async () => {
  const store = await shown(10);
  fireEvent.click(screen.getByRole("button", { name: "Actions at snapshot 10" }));
  fireEvent.click(screen.getByRole("menuitem", { name: "Roll back to here…" }));
  expect(store.planned.value).toEqual({ action: "roll back", version: 10 });
  expect(store.tab.value).toBe("changes");
  expect(screen.queryByRole("menu")).toBeNull();
});

it("draws few elements for 10,000 versions, and zooms by keys", async () => {
  await shown(10_000, 10_000);
  expect(document.querySelectorAll(".sx-time *").length).toBeLessThan(600);
  const marks = (): number => document.querySelectorAll("svg path[transform]").length;
  const before = marks();
  const handle = screen.getByRole("slider", { name: "Version" });
  for (let i = 0; i < 20; i++) fireEvent.keyDown(handle, { key: "+" });
  await waitFor(() => expect(marks()).toBeLessThan(before));
  expect(screen.getByText("9998")).toBeTruthy();
  fireEvent.keyDown(handle, { key: "0" });
  await waitFor(() => expect(marks()).toBe(before));
});
