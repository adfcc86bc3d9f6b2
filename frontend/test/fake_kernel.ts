/** A kernel in the test: it answers each request by a function, soon after it was asked. */
import { type Model, RequestError } from "../src/kernel";
import type { Do, Kind, Requests, Selection, TableDetails, Versions } from "../src/protocol";

export interface Asked {
  id: number;
  topic: string;
  do: string;
  [name: string]: unknown;
}

export type Answers = { [D in Do]?: (asked: Requests[D]["args"]) => Requests[D]["answer"] };
type Handler = (...args: never[]) => void;

export class FakeKernel implements Model {
  /** What the page asked, in order. */
  readonly asked: Asked[] = [];
  private readonly handlers = new Map<string, Set<Handler>>();
  private readonly traits: Record<string, unknown>;

  constructor(
    selection: Partial<Selection>,
    private readonly answers: Answers,
    private readonly fail?: string, // this request is answered by an error
  ) {
    const query = { filters: [], sorts: [], search: "" };
    this.traits = {
      selection: { table: "", version: 0, before: null, tab: "rows", query, statement: "", ...selection },
      start: { mode: "explorer", answers: {}, canWrite: true, canKeep: true, keywords: [] },
    };
  }

  get(name: string): unknown {
    return this.traits[name];
  }

  set(name: string, value: unknown): void {
    this.traits[name] = value;
  }

  save_changes(): void {}

  on(event: string, handler: Handler): void {
    this.handlers.set(event, (this.handlers.get(event) ?? new Set()).add(handler));
  }

  off(event: string, handler: Handler): void {
    this.handlers.get(event)?.delete(handler);
  }

  send(message: unknown): void {
    const asked = message as Asked;
    this.asked.push(asked);
    if (asked.do === "cancel") return;
    const reply = { id: asked.id, ...this.reply(asked) };
    setTimeout(() => this.handlers.get("msg:custom")?.forEach((each) => (each as (...all: unknown[]) => void)(reply, [])));
  }

  private reply(asked: Asked): object {
    if (asked.do === this.fail) return { error: { message: "A file is gone.", hint: "Check it." } };
    try {
      return { ok: (this.answers[asked.do as Do] as ((asked: Asked) => unknown) | undefined)?.(asked) ?? {} };
    } catch (error) {
      return { error: (error as RequestError).failure };
    }
  }
}

/** Versions of which each adds the rows of a month. */
export function versions(count: number): Versions {
  const number = Array.from({ length: count }, (_, i) => i + 1);
  return {
    number,
    committed: number.map((each) => Date.UTC(2026, 10, 1) + each * 3_600_000),
    kind: number.map((each) => (each === 1 ? "create" : "ingest")),
    change: number.map((each) => (each === 1 ? "" : "+28,135 rows")),
    message: number.map(() => ""),
    rows: number.map((each) => (each - 1) * 28_135),
    bytes: number.map((each) => (each - 1) * 690_000),
    savepoints: { "8": ["half-year"] },
  };
}

interface TableOptions {
  names?: string[];
  count?: number; // of versions
}

/** What is answered about tables, all with the same versions and one column. */
export function tablesOf({ names = ["airports", "bookings", "flights"], count = 18 }: TableOptions = {}): Answers {
  const kind: Kind = "string";
  const column = { name: "carrier", type: "string", kind, role: "row key" as const, nullable: false, default: null, comment: "" };
  const details = (name: string): TableDetails => ({
    name, rows: 336_776, bytes: 8_268_000, growth: [1, 2, 3], due: ["compaction", "garbage collection"], problem: "",
  });
  return {
    tables: () => ({ names }),
    details: (asked) => ({ tables: asked.names.map(details) }),
    search: () => ({ found: [{ name: "flights", reason: "row key carrier" }] }),
    open: ({ table }) => ({ name: table, comment: "", versions: versions(count), actions: true }),
    schema: ({ table, version }) => ({
      version, columns: [column], rows: 10, bytes: 1, files: 1, partitions: 1, comment: "", properties: [], line: table,
    }),
    commit: ({ version }) => ({ files: version, details: [] }),
  };
}
