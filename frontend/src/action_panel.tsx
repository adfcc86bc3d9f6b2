/** Roll back and savepoint: the plan of the action that the store says, the button that does it, and how to undo it. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import "./action_panel.css";
import { PlanCard } from "./plan_card";
import type { Action, Done, Plan } from "./protocol";
import { Button, Copy, Failure, Skeleton, Status } from "./states";
import { type Loaded, NOTHING, type Planned, type Store } from "./store";

const WAIT = 200; // milliseconds without a key before a name is checked

interface Outcome {
  done: Done;
  table: string;
  action: Action;
  back: number; // the version that was the newest before
}

export function ActionPanel({ store }: { store: Store }) {
  const outcome = useSignal<Outcome | null>(null);
  const planned = store.planned.value;
  const shown = outcome.value?.table === store.table.value ? outcome.value : null;
  return (
    <>
      {shown !== null && planned === null && (
        <DoneLine store={store} outcome={shown} onClose={() => (outcome.value = null)} />
      )}
      {planned !== null && (
        <Planning
          key={`${store.table.value} ${planned.action} ${planned.version}`} store={store} planned={planned}
          onDone={(each) => (outcome.value = each)}
        />
      )}
    </>
  );
}

function DoneLine({ store, outcome, onClose }: { store: Store; outcome: Outcome; onClose: () => void }) {
  const { done, action, back } = outcome;
  return (
    <div class="sx-done">
      <Status>{done.sentence}</Status>
      {action === "roll back" && done.undo && (
        <Button icon="back" onClick={() => store.plan("roll back", back)}>Undo…</Button>
      )}
      {done.undo && (
        <span class="sx-done-undo">
          <code class="sx-cut" title={done.undo}>{done.undo}</code>
          <Copy text={done.undo} look="quiet" name="Copy the command that undoes it" />
        </span>
      )}
      <Button look="quiet" icon="close" aria-label="Dismiss" onClick={onClose} />
    </div>
  );
}

interface PlanningParts { store: Store; planned: Planned; onDone: (outcome: Outcome) => void }

function Planning({ store, planned, onDone }: PlanningParts) {
  const { action, version } = planned;
  const name = useSignal("");
  const plan = useSignal<Loaded<Plan>>(NOTHING);
  const acted = useSignal<Loaded<Done>>(NOTHING);
  const box = useRef<HTMLDivElement>(null);
  const args = () => ({ table: store.table.peek(), action, version, name: name.peek().trim() });
  useEffect(() => {
    acted.value = NOTHING;
    const timer = setTimeout(() => void store.load(plan, "plan", args()), plan.peek().value === null ? 0 : WAIT);
    return () => clearTimeout(timer);
  }, [name.value]);
  useEffect(() => {
    const field = box.current?.querySelector<HTMLElement>("input") ?? box.current;
    field?.focus({ preventScroll: true });
    const body = box.current?.parentElement;
    if (body) body.scrollTop = 0; // the page around it stays where it is
  }, []);
  const act = async (): Promise<void> => {
    const [table, back] = [store.table.peek(), store.newest.peek()];
    const done = await store.load(acted, "act", args());
    if (done === null) return;
    onDone({ done, table, action, back });
    store.planned.value = null;
    await store.refresh();
  };
  const close = (): void => void (store.planned.value = null);
  const { value, loading } = plan.value;
  const reason = acted.value.failure ?? plan.value.failure;
  return (
    <div
      ref={box} class="sx-planning" tabindex={-1} aria-busy={loading || acted.value.loading}
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      {action === "save" && (
        <label class="sx-planning-name">
          Name of the savepoint
          <input
            class="sx-field" value={name.value} placeholder="before-cleanup" autocomplete="off" spellcheck={false}
            onInput={(event) => (name.value = event.currentTarget.value)}
            onKeyDown={(event) => event.key === "Enter" && value?.possible && !loading && void act()}
          />
        </label>
      )}
      {value === null && !reason && <Skeleton rows={5} label="The plan is made" />}
      {value !== null && (
        <PlanCard plan={value}>
          <Button
            look={value.danger ? "danger" : "primary"} disabled={!value.possible || acted.value.loading || loading}
            onClick={() => void act()}
          >
            {value.button}
          </Button>
          <Button onClick={close}>Cancel</Button>
        </PlanCard>
      )}
      {reason && <Failure failure={reason} />}
      {value === null && reason && <Button onClick={close}>Close</Button>}
    </div>
  );
}
