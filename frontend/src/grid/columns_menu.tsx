/** The menu of all columns: found by name, shown or hidden, pinned. */
import { type Signal, useSignal } from "@preact/signals";
import { count } from "../format";
import { Icon } from "../icons";
import { PopoverButton } from "../popover";
import { Button, SearchField } from "../states";
import { type ColumnLayout, matching, pinnedNames, withHidden, withPin } from "./columns";
import type { GridColumn } from "./source";

const MOST = 200;

interface ColumnsParts { columns: GridColumn[]; layout: Signal<ColumnLayout> }

export function ColumnsButton({ columns, layout }: ColumnsParts) {
  const known = new Set(columns.map(({ name }) => name));
  const hidden = layout.value.hidden.filter((name) => known.has(name)).length;
  const face = (
    <>
      <Icon name="table" />
      <span>Columns</span>
      <span class="sx-muted">
        {hidden > 0 && `${count(columns.length - hidden)} of `}
        {columns.length > 0 && count(columns.length)}
      </span>
    </>
  );
  return (
    <div class="sx-anchor">
      <PopoverButton
        class="sx-button sx-button-quiet" disabled={columns.length === 0} label="Columns" panel="sx-columns" face={face}
      >
        {() => <ColumnsMenu columns={columns} layout={layout} />}
      </PopoverButton>
    </div>
  );
}

function ColumnsMenu({ columns, layout }: ColumnsParts) {
  const text = useSignal("");
  const found = matching(columns, text.value);
  const names = found.map(({ name }) => name);
  const hidden = new Set(layout.value.hidden);
  const pinned = new Set(pinnedNames(columns, layout.value));
  const hide = (of: string[], isHidden: boolean): void => void (layout.value = withHidden(layout.value, of, isHidden));
  return (
    <>
      <SearchField
        label="Find a column" placeholder={`Find in ${count(columns.length)} columns`} value={text.value}
        onText={(typed) => (text.value = typed)}
      />
      <ul class="sx-columns-list">
        {found.slice(0, MOST).map(({ name, type }) => (
          <li key={name} class="sx-columns-item">
            <label title={`${name} · ${type}`}>
              <input
                type="checkbox" checked={!hidden.has(name)}
                onChange={(event) => hide([name], !event.currentTarget.checked)}
              />
              <span class="sx-cut">{name}</span>
              <span class="sx-muted sx-cut">{type}</span>
            </label>
            <Button
              look="quiet" icon="pin" aria-label={`Pin ${name}`} aria-pressed={pinned.has(name)}
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
        <Button look="quiet" onClick={() => hide(names, false)}>Show all</Button>
        <Button look="quiet" onClick={() => hide(names, true)}>Hide all</Button>
      </div>
    </>
  );
}
