/** The Partitions tab: key space to the scale of rows, with files as layers. */
import { batch, type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo } from "preact/hooks";
import { isWhole, reveal, type View, whole, zoom } from "./axis_view";
import { bytes, count, plural } from "./format";
import { failureOf } from "./kernel";
import * as layout from "./keyspace_layout";
import { Legend, type Space, Strip } from "./keyspace_picture";
import { LeafList } from "./leaf_list";
import "./partitions.css";
import type { Failure as Reason, KeySpaceAnswer } from "./protocol";
import { Button, Chip, Empty, Failure, Segments, Skeleton } from "./states";
import { type Loaded, NOTHING, type Store } from "./store";

const ZOOM = 1.6;
const WIDTHS = [{ value: "rows", title: "By rows" }, { value: "equal", title: "Equal" }];

export function PartitionsTab({ store }: { store: Store }) {
  const loaded = useSignal<Loaded<KeySpaceAnswer>>(NOTHING);
  const [table, version] = [store.table.value, store.version.value];
  const ask = (): void => void (version > 0 && store.load(loaded, "keyspace", { table, version }, { parts: true }));
  useEffect(ask, [table, version]);
  const { value, loading, failure } = loaded.value;
  useEffect(() => {
    if (value) store.say(value.line);
  }, [value]);
  return (
    <div class={`sx-partitions${loading && value ? " sx-old" : ""}`} aria-busy={loading}>
      {failure && <Failure failure={failure} onRetry={ask} />}
      {value === null && !failure && <Waiting />}
      {value !== null && !failure && value.leaves.id.length === 0 && (
        <Empty title="There are no partitions" icon="table" />
      )}
      {value !== null && !failure && value.leaves.id.length > 0 && <KeySpace store={store} answer={value} />}
    </div>
  );
}

function Waiting() {
  return (
    <>
      <Skeleton width="320px" height="20px" />
      <Skeleton height="140px" label="Partitions are read" />
      <Skeleton rows={6} height="20px" />
    </>
  );
}

function KeySpace({ store, answer }: { store: Store; answer: KeySpaceAnswer }) {
  const equal = useSignal(false);
  const view = useSignal(whole(layout.SIZE));
  const chosen = useSignal(-1); // the leaf of the keyboard; -1 before the first
  const hovered = useSignal<number | null>(null);
  const failure = useSignal<Reason | null>(null);
  const crowd = useSignal(0);
  const leafCount = answer.leaves.id.length;
  useLayoutEffect(() => {
    if (chosen.peek() >= leafCount) chosen.value = -1;
    view.value = whole(layout.SIZE);
  }, [leafCount, equal.value]);
  const usual = useMemo(() => layout.median(answer.leaves.rows), [answer]);
  const heats = useMemo(() => answer.leaves.rows.map((rows) => layout.heatOf(rows, usual)), [answer]);
  const edges = useMemo(() => layout.boundaries(answer.leaves.rows, equal.value), [answer, equal.value]);
  const space: Space = { answer, usual, heats, edges };
  const onZoom = (factor: number): void => {
    const now = view.peek();
    const middle = (now.first + now.last) / 2;
    view.value = zoom(now, layout.SIZE, factor, middle, layout.leastView(leafCount));
  };
  const choose = (leaf: number): void => {
    batch(() => {
      chosen.value = Math.max(0, Math.min(leafCount - 1, leaf));
      const at = chosen.peek();
      view.value = reveal(view.peek(), layout.SIZE, edges[at]!, edges[at + 1]!);
    });
  };
  const open = async (leaf: number): Promise<void> => {
    const args = { table: store.table.peek(), version: answer.version, leaf: answer.leaves.id[leaf]! };
    try {
      const { filters } = await store.kernel.ask("leaf", args);
      batch(() => {
        store.query.value = { filters, sorts: [], search: "" };
        store.tab.value = "rows";
      });
    } catch (error) {
      failure.value = failureOf(error);
    }
  };
  return (
    <>
      <Summary space={space} equal={equal} view={view} onZoom={onZoom} />
      {failure.value && <Failure failure={failure.value} />}
      <Strip
        space={space} view={view} chosen={chosen} hovered={hovered} crowd={crowd} dark={store.dark.value}
        onChoose={choose} onOpen={(leaf) => void open(leaf)}
      />
      <Legend space={space} crowd={crowd.value} />
      <LeafList
        leaves={answer.leaves} heats={heats} chosen={chosen} onChoose={choose} onOpen={(leaf) => void open(leaf)}
      />
    </>
  );
}

interface SummaryParts {
  space: Space;
  equal: Signal<boolean>;
  view: Signal<View>;
  onZoom: (factor: number) => void;
}

function Summary({ space, equal, view, onZoom }: SummaryParts) {
  const { answer, heats } = space;
  const { leaves, files, jobs } = answer;
  const hot = heats.filter((each) => each === "hot").length;
  const total = (values: number[]): number => values.reduce((sum, each) => sum + each, 0);
  const isAll = isWhole(view.value, layout.SIZE);
  const merged = total(jobs.map((each) => each.files));
  const [first, ...others] = [
    merged > 0 ? `Compaction would merge ${count(merged)} of ${plural(files.name.length, "file")}` : "",
    plural(leaves.id.length, "partition"),
    plural(total(leaves.rows), "row"),
    `${merged > 0 ? "" : `${plural(files.name.length, "file")} · `}${bytes(total(files.bytes))}`,
  ].filter(Boolean);
  return (
    <div class="sx-keyspace-top">
      <p>
        <strong>{first}</strong> <span class="sx-muted">{others.map((each) => ` · ${each}`)}</span>
      </p>
      {hot > 0 && <Chip tone="removed">{plural(hot, "hot partition")}</Chip>}
      <span class="sx-space" />
      <Segments
        label="Width of a partition" options={WIDTHS} value={equal.value ? "equal" : "rows"}
        onChoose={(width) => (equal.value = width === "equal")}
      />
      <div class="sx-keyspace-zoom" role="group" aria-label="Zoom">
        <Button icon="minus" aria-label="Zoom out" disabled={isAll} onClick={() => onZoom(ZOOM)} />
        <Button icon="plus" aria-label="Zoom in" onClick={() => onZoom(1 / ZOOM)} />
        <Button
          icon="fit" aria-label="Show all of key space" disabled={isAll} onClick={() => (view.value = whole(layout.SIZE))}
        />
      </div>
    </div>
  );
}
