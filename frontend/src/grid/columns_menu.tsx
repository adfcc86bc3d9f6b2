/** The menu of all columns: found by name, shown or hidden, pinned. */
import { type Signal, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { count } from "../format";
import { Button } from "../states";
import { type ColumnLayout, matching, pinnedNames, withHidden, withPin } from "./columns";
import { Popover } from "./popover";
import type { GridColumn } from "./source";

const MOST = 200;

export function ColumnsButton({ columns, layout }: { columns: GridColumn[]; layout: Signal<ColumnLayout> }) {
  const isOpen = useSignal(false);
  const known = new Set(columns.map(({ name }) => name));
  const hidden = layout.value.hidden.filter((name) => known.has(name)).length;
  const opener = useRef<HTMLButtonElement>(null);
  const onClose = (refocus: boolean): void => {
    isOpen.value = false;
    if (refocus) opener.current?.focus();
  };
  return (
    <div class="sx-anchor">
      <Button
        icon="table"
        innerRef={opener}
        aria-haspopup="dialog"
        aria-expanded={isOpen.value}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        <span>Columns</span>
        {hidden > 0 && (
          <span class="sx-muted">
            {count(columns.length - hidden)} of {count(columns.length)}
          </span>
        )}
      </Button>
      {isOpen.value && <ColumnsMenu columns={columns} layout={layout} opener={opener.current} onClose={onClose} />}
    </div>
  );
}

interface MenuParts {
  columns: GridColumn[];
  layout: Signal<ColumnLayout>;
  opener: HTMLElement | null;
  onClose: (refocus: boolean) => void;
}

function ColumnsMenu({ columns, layout, opener, onClose }: MenuParts) {
  const text = useSignal("");
  const found = matching(columns, text.value);
  const names = found.map(({ name }) => name);
  const hidden = new Set(layout.value.hidden);
  const pinned = new Set(pinnedNames(columns, layout.value));
  const hide = (of: string[], isHidden: boolean): void => void (layout.value = withHidden(layout.value, of, isHidden));
  return (
    <Popover label="Columns" class="sx-columns" opener={opener} onClose={onClose}>
      <input
        class="sx-field"
        type="search"
        aria-label="Find a column"
        placeholder={`Find in ${count(columns.length)} columns`}
        value={text.value}
        onInput={(event) => (text.value = event.currentTarget.value)}
      />
      <ul class="sx-columns-list">
        {found.slice(0, MOST).map(({ name, type }) => (
          <li key={name} class="sx-columns-item">
            <label title={`${name} · ${type}`}>
              <input
                type="checkbox"
                checked={!hidden.has(name)}
                onChange={(event) => hide([name], !event.currentTarget.checked)}
              />
              <span class="sx-cut">{name}</span>
              <span class="sx-muted sx-cut">{type}</span>
            </label>
            <Button
              look="quiet"
              icon="pin"
              aria-label={`Pin ${name}`}
              aria-pressed={pinned.has(name)}
              onClick={() => (layout.value = withPin(columns, layout.value, name, !pinned.has(name)))}
            />
          </li>
        ))}
        {found.length === 0 && <li class="sx-muted sx-columns-note">No column has this name.</li>}
        {found.length > MOST && (
          <li class="sx-muted sx-columns-note">… and {count(found.length - MOST)} more: type a part of the name</li>
        )}
      </ul>
      <div class="sx-columns-all">
        <Button look="quiet" onClick={() => hide(names, false)}>
          Show all
        </Button>
        <Button look="quiet" onClick={() => hide(names, true)}>
          Hide all
        </Button>
      </div>
    </Popover>
  );
}
