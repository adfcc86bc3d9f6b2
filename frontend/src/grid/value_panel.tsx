/** The whole value of a cell, beside the rows: a text, or a tree of a nested value. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { count } from "../format";
import { failureOf } from "../kernel";
import type { Cell, Failure as Reason, Tree } from "../protocol";
import { Button, Copy, Failure, Skeleton } from "../states";
import type { GridColumn, GridSource } from "./source";

interface PanelParts {
  source: GridSource;
  column: GridColumn;
  row: number;
  cell: Cell | undefined;
  onClose: () => void;
}

export function ValuePanel({ source, column, row, cell, onClose }: PanelParts) {
  const tree = useSignal<Tree | null>(null);
  const failure = useSignal<Reason | null>(null);
  const isPart = cell !== null && (column.kind === "nested" || typeof cell === "object");
  const needsMore = isPart && source.value !== undefined;
  useEffect(() => {
    let isOver = false;
    failure.value = null;
    tree.value = null;
    if (cell === undefined || !needsMore) return;
    source.value?.(row, column.name).then(
      (found) => {
        if (!isOver) tree.value = found;
      },
      (error: unknown) => {
        if (!isOver) failure.value = failureOf(error);
      },
    );
    return () => {
      isOver = true;
    };
  }, [source, row, column.name, cell]);
  const text = tree.value?.text ?? (typeof cell === "string" ? cell : null);
  const isTree = tree.value?.items !== undefined;
  return (
    <section class="sx-value" aria-label={`Value of ${column.name}`}>
      <div class="sx-value-head">
        <div class="sx-value-title">
          <strong class="sx-cut">{column.name}</strong>
          <span class="sx-muted sx-cut">row {count(row + 1)} · {column.type}</span>
        </div>
        {text !== null && !isTree && <Copy text={text} look="quiet" />}
        <Button look="quiet" icon="close" aria-label="Close the value" onClick={onClose} />
      </div>
      <div class="sx-value-body" tabindex={0} role="region" aria-label={`Text of ${column.name}`}>
        {failure.value ? <Failure failure={failure.value} /> : cell === null ? (
          <span class="sx-cell-null">NULL</span>
        ) : isTree ? (
          <TreeItems items={tree.value?.items ?? []} more={tree.value?.more} />
        ) : text === null || (needsMore && tree.value === null) ? <Skeleton rows={3} /> : text === "" ? (
          <span class="sx-cell-none">''</span>
        ) : <pre class="sx-value-text">{text}</pre>}
      </div>
    </section>
  );
}

function TreeItems({ items, more }: { items: [string, Tree][]; more: string | undefined }) {
  return (
    <ul class="sx-tree">
      {items.map(([name, each], i) => <TreeItem key={i} name={name} tree={each} />)}
      {more && <li class="sx-muted">{more}</li>}
    </ul>
  );
}

function TreeItem({ name, tree }: { name: string; tree: Tree }) {
  if (tree.items === undefined) {
    return (
      <li class="sx-tree-leaf">
        <span class="sx-muted">{name}</span>
        <span class="sx-tree-text">{tree.text === "" ? <span class="sx-cell-none">''</span> : tree.text}</span>
      </li>
    );
  }
  return (
    <li>
      <details open>
        <summary>
          <span class="sx-muted">{name}</span> <span class="sx-cut">{tree.text}</span>
        </summary>
        <TreeItems items={tree.items} more={tree.more} />
      </details>
    </li>
  );
}
