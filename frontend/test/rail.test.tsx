// @vitest-environment jsdom
import { cleanup, configure, fireEvent, render, screen, waitFor } from "@testing-library/preact";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { Rail } from "../src/rail";
import { Store } from "../src/store";
import { FakeKernel, tablesOf } from "./fake_kernel";

// A loaded machine may take seconds for what takes milliseconds.
configure({ asyncUtilTimeout: 10_000 });
vi.setConfig({ testTimeout: 60_000 });

class NoObserver {
  observe(): void {}
  disconnect(): void {}
}

beforeAll(() => void Object.assign(globalThis, { ResizeObserver: NoObserver }));
afterEach(cleanup);

function shown(names = ["airports", "bookings", "flights"], fail = ""): { model: FakeKernel; store: Store } {
  const model = new FakeKernel({ table: "flights", version: 18 }, tablesOf({ names }), fail);
  const store = new Store(model);
  render(<Rail store={store} />);
  return { model, store };
}

function options(): string[] {
  return screen.getAllByRole("option").map((each) => each.textContent ?? "");
}

it("lists tables with rows, size and what is due", async () => {
  shown();
  await waitFor(() => expect(options().join()).toContain("337 k rows, 7.9 MiB"));
  expect(options().find((each) => each.startsWith("flights"))).toContain("2 due");
  expect(screen.getByRole("listbox", { name: "Tables" })).toBeTruthy();
});

it("draws and asks only what is in view of 10,000 tables", async () => {
  const { model } = shown(Array.from({ length: 10_000 }, (_, i) => `table ${i}`));
  await waitFor(() => expect(screen.getByText("10,000 tables")).toBeTruthy());
  expect(options().length).toBeLessThan(30);
  await waitFor(() => expect(model.asked.some((each) => each.do === "details")).toBe(true));
  const asked = model.asked.filter((each) => each.do === "details");
  expect(asked.length).toBe(1);
  expect((asked[0] as unknown as { names: string[] }).names.length).toBeLessThan(30);
});

it("finds by name at once, by column when the kernel answers, and Enter opens the first", async () => {
  const { model, store } = shown();
  await waitFor(() => expect(options().length).toBe(3));
  const field = screen.getByRole("searchbox");
  fireEvent.input(field, { target: { value: "book" } });
  await waitFor(() => expect(options().length).toBe(1));
  expect(model.asked.some((each) => each.do === "search")).toBe(false);
  fireEvent.keyDown(field, { key: "Enter" });
  await waitFor(() => expect(store.table.value).toBe("bookings"));
  fireEvent.input(field, { target: { value: "carrier" } });
  await waitFor(() => expect(options().join()).toContain("carrier"));
});

it("is used by keys alone", async () => {
  const { store } = shown();
  await waitFor(() => expect(options().length).toBe(3));
  const list = screen.getByRole("listbox");
  fireEvent.keyDown(list, { key: "Home" });
  fireEvent.keyDown(list, { key: "ArrowDown" });
  const active = list.getAttribute("aria-activedescendant") ?? "";
  expect(document.getElementById(active)?.textContent).toContain("bookings");
  fireEvent.keyDown(list, { key: " " });
  await waitFor(() => expect(store.table.value).toBe("bookings"));
});

it("says why tables cannot be listed", async () => {
  shown([], "tables");
  await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("A file is gone."));
});
