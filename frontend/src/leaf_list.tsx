/** Key ranges as a list with search: what the picture shows, for the keyboard. Only rows that are seen are drawn. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useId, useMemo } from "preact/hooks";
import { bytes, count, plural } from "./format";
import { HEAT_LABELS, type Heat, listed } from "./keyspace_layout";
import "./leaf_list.css";
import { rowFor, useListWindow } from "./list_window";
import type { KeySpaceAnswer } from "./protocol";
import { SearchField, Segments } from "./states";

const ROW = 28;
const HEIGHT = 224;
const ORDERS = [{ value: "keys", title: "Key order" }, { value: "rows", title: "Most rows" }];

interface LeafListParts {
  leaves: KeySpaceAnswer["leaves"];
  heats: Heat[];
  chosen: Signal<number>;
  onChoose: (leaf: number) => void;
  onOpen: (leaf: number) => void;
}

export function LeafList({ leaves, heats, chosen, onChoose, onOpen }: LeafListParts) {
  const search = useSignal("");
  const byRows = useSignal(false);
  const id = useId();
  const rows = useMemo(() => listed(leaves, search.value, byRows.value), [leaves, search.value, byRows.value]);
  const at = rows.indexOf(chosen.value);
  const { box, first, end, page, onScroll, reveal } = useListWindow(rows.length, ROW);
  useEffect(() => {
    if (at !== -1) reveal(at);
  }, [at, rows]);
  const onKey = (event: KeyboardEvent): void => {
    const next = rowFor(event.key, at, rows.length, page);
    if (event.key === "Enter" && at !== -1) onOpen(chosen.peek());
    else if (next !== null) onChoose(rows[next]!);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const shown = rows.slice(first, end);
  return (
    <section class="sx-leaves" aria-label="Key ranges">
      <div class="sx-leaves-top">
        <h3 class="sx-leaves-title">Key ranges</h3>
        <SearchField label="Search key ranges" value={search.value} onText={(text) => (search.value = text)} />
        <Segments
          label="Order of key ranges" options={ORDERS} value={byRows.value ? "rows" : "keys"}
          onChoose={(order) => (byRows.value = order === "rows")}
        />
        <span class="sx-muted" role="status">{search.value ? plural(rows.length, "range") : ""}</span>
      </div>
      <div class="sx-leaves-head" aria-hidden="true">
        <div class="sx-leaf-row sx-muted">
          <span />
          <span>Key range</span>
          <span />
          <span class="sx-leaf-number">Rows</span>
          <span class="sx-leaf-number sx-leaf-files">Files</span>
          <span class="sx-leaf-number sx-leaf-size">Size</span>
        </div>
      </div>
      <div
        ref={box} class="sx-leaves-list" role="listbox" tabindex={0} aria-label="Key ranges"
        aria-activedescendant={at >= first && at < end ? `${id}-${at}` : undefined} data-lm-suppress-shortcuts="true"
        style={{ height: `${Math.min(HEIGHT, Math.max(1, rows.length) * ROW + 2)}px` }} onScroll={onScroll}
        onKeyDown={onKey}
      >
        <div class="sx-leaves-all" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
          {shown.map((leaf, index) => (
            <div
              key={leaf} id={`${id}-${first + index}`} class="sx-leaf sx-leaf-row" role="option"
              aria-selected={leaf === chosen.value} aria-setsize={rows.length} aria-posinset={first + index + 1}
              style={{ top: `${(first + index) * ROW}px` }} title="Double-click, or Enter, to see its rows"
              onClick={() => onChoose(leaf)} onDblClick={() => onOpen(leaf)}
            >
              <span class={`sx-leaf-swatch sx-ink-${heats[leaf]}`} title={HEAT_LABELS[heats[leaf]!]} />
              <span class="sx-leaf-range sx-cut" title={leaves.range[leaf]}>{leaves.range[leaf]}</span>
              <span class="sx-leaf-heat sx-muted">{word(heats[leaf]!)}</span>
              <span class="sx-leaf-number"><Counted of={leaves.rows[leaf]!} unit="row" /></span>
              <span class="sx-leaf-number sx-leaf-files"><Counted of={leaves.files[leaf]!} unit="file" /></span>
              <span class="sx-leaf-number sx-leaf-size">{bytes(leaves.bytes[leaf]!)}</span>
            </div>
          ))}
        </div>
        {rows.length === 0 && <p class="sx-leaves-none sx-muted">No key range has this text.</p>}
      </div>
    </section>
  );
}

/** A number whose head says what it counts, which readers of the screen hear beside it. */
function Counted({ of, unit }: { of: number; unit: string }) {
  return <>{count(of)}<span class="sx-unseen"> {of === 1 ? unit : `${unit}s`}</span></>;
}

function word(heat: Heat): string {
  return heat === "hot" ? "Hot" : heat === "empty" ? "Empty" : "";
}
