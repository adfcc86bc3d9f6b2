/** What an action or a statement would do: its plan as sentences, and the command. */
import type { ComponentChildren } from "preact";
import type { Plan } from "./protocol";
import { Copy } from "./states";
import "./plan_card.css";

export function PlanCard({ plan, note, children }: { plan: Plan; note?: string; children?: ComponentChildren }) {
  return (
    <section class={`sx-plan${plan.danger ? " sx-plan-danger" : ""}`} aria-label={plan.title}>
      <h3 class="sx-title">{plan.title}</h3>
      <ul class="sx-plan-list">{plan.sentences.map((each) => <li key={each}>{each}</li>)}</ul>
      {note && <p class="sx-muted">{note}</p>}
      {plan.line && (
        <div class="sx-plan-line">
          <code>{plan.line}</code>
          <Copy text={plan.line} look="quiet" name="Copy the command" />
        </div>
      )}
      {children && <div class="sx-plan-buttons">{children}</div>}
    </section>
  );
}
