/** Requests to the kernel: each has an id, and a newer one of a topic cancels the older. */
import type { Do, Failure, Requests } from "./protocol";

/** What anywidget hands over, as far as it is used. */
export interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, handler: (...args: never[]) => void): void;
  off(event: string, handler: (...args: never[]) => void): void;
  send(message: unknown): void;
}

/** The kernel answered with an error; `hint` says what to do. */
export class RequestError extends Error {
  constructor(readonly failure: Failure) {
    super(failure.message);
  }
}

/** A newer request took the place of this one. */
export class Superseded extends Error {}

/** Why the kernel refused; null for a request that was superseded. Any other error is thrown. */
export function failureOf(error: unknown): Failure | null {
  if (error instanceof RequestError) return error.failure;
  if (error instanceof Superseded) return null;
  throw error;
}

interface Waiting {
  topic: string;
  resolve: (answer: unknown) => void;
  reject: (error: Error) => void;
  onPart: ((part: unknown) => void) | undefined;
}

interface Reply {
  id: number;
  ok?: unknown;
  part?: unknown;
  error?: Failure;
  cancelled?: true;
}

export class Kernel {
  // A widget may be shown twice, and what the kernel sends goes to both pages: each has ids and topics of its own.
  private next = 1 + Math.floor(Math.random() * 2 ** 32) * 2 ** 20;
  private readonly page = `${this.next.toString(36)} `;
  private readonly waiting = new Map<number, Waiting>();
  private readonly kept: Map<string, unknown>;
  private readonly onMessage = (message: never): void => this.take(message as Reply);

  /** `answers` are those that came with the page; each is used once. */
  constructor(
    private readonly model: Model,
    answers: Record<string, unknown> = {},
  ) {
    this.kept = new Map(Object.entries(answers));
    model.on("msg:custom", this.onMessage);
  }

  /** Ask, and cancel what was asked before in the same topic. The topic is `do` unless given. */
  ask<D extends Do>(
    what: D,
    args: Requests[D]["args"],
    options: { topic?: string; onPart?: (part: Requests[D]["answer"]) => void } = {},
  ): Promise<Requests[D]["answer"]> {
    const topic = options.topic ?? what;
    this.cancel(topic);
    const key = requestKey(what, args);
    if (this.kept.has(key)) {
      const answer = this.kept.get(key) as Requests[D]["answer"];
      this.kept.delete(key);
      return Promise.resolve(answer);
    }
    const id = this.next++;
    const onPart = options.onPart as ((part: unknown) => void) | undefined;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { topic, resolve: resolve as (answer: unknown) => void, reject, onPart });
      this.model.send({ id, topic: this.page + topic, do: what, ...args });
    });
  }

  /** The answer that came with the page, if there is one, at once: the first frame shows it. */
  peek<D extends Do>(what: D, args: Requests[D]["args"]): Requests[D]["answer"] | undefined {
    return this.kept.get(requestKey(what, args)) as Requests[D]["answer"] | undefined;
  }

  cancel(topic: string): void {
    for (const [id, each] of this.waiting) {
      if (each.topic === topic) {
        this.waiting.delete(id);
        this.model.send({ id, topic: this.page + topic, do: "cancel" });
        each.reject(new Superseded());
      }
    }
  }

  close(): void {
    this.model.off("msg:custom", this.onMessage);
    for (const each of this.waiting.values()) each.reject(new Superseded());
    this.waiting.clear();
  }

  private take(reply: Reply): void {
    const each = this.waiting.get(reply.id);
    if (each === undefined) return;
    if (reply.part !== undefined) {
      each.onPart?.(reply.part);
      return;
    }
    this.waiting.delete(reply.id);
    if (reply.error !== undefined) each.reject(new RequestError(reply.error));
    else if (reply.cancelled !== undefined) each.reject(new Superseded());
    else each.resolve(reply.ok);
  }
}

/** The text that names a request: equal for equal requests. Python makes the same with sorted keys and no spaces. */
export function requestKey(what: string, args: object): string {
  return `${what} ${JSON.stringify(sorted(args))}`;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return Object.fromEntries(entries.map(([name, each]) => [name, sorted(each)]));
}
