/** The menu of a header: a typed filter, rows without a value, the order, and the place of the column. */
import { useSignal } from "@preact/signals";
import { Button } from "../states";
import type { Kind } from "../protocol";
import { Popover } from "../popover";
import type { GridColumn, GridHeaders, GridSorts } from "./source";

interface MenuParts {
  column: GridColumn;
  left: number;
  top: number;
  opener: HTMLElement;
  isPinned: boolean;
  headers: GridHeaders | undefined;
  sorting: GridSorts | undefined;
  onPin: (isPinned: boolean) => void;
  onHide: () => void;
  onFit: () => void;
  onClose: (refocus: boolean) => void;
}

const EXAMPLES: Partial<Record<Kind, string>> = {
  string: "part of a text, = AA, DL, null",
  nested: "part of a text, null",
  boolean: "true, false, null",
  date: "2013-07-01 .. 2013-07-31",
  timestamp: "> 2013-07-01 10:00",
  time: "10:00 .. 11:30",
};

export function HeaderMenu(parts: MenuParts) {
  const { column, headers, sorting, onClose } = parts;
  const sort = sorting?.sorts.find((each) => each.column === column.name);
  const then = (act: () => void) => () => {
    onClose(true);
    act();
  };
  return (
    <Popover
      label={`Column ${column.name}`} class="sx-head-popover" style={{ left: `${parts.left}px`, top: `${parts.top}px` }}
      opener={parts.opener} onClose={onClose}
    >
      {headers && <TypedFilter column={column} headers={headers} onClose={onClose} />}
      <div class="sx-menu">
        {headers && (headers.header(column.name)?.nulls ?? 0) > 0 && (
          <Button look="quiet" icon="filter" onClick={then(() => headers.type(column.name, "null"))}>
            Only rows without a value
          </Button>
        )}
        {sorting && sort?.descending !== false && (
          <Button look="quiet" icon="up" onClick={then(() => sorting.order(column.name, false))}>Sort ascending</Button>
        )}
        {sorting && sort?.descending !== true && (
          <Button look="quiet" icon="down" onClick={then(() => sorting.order(column.name, true))}>
            Sort descending
          </Button>
        )}
        {sorting && sort && (
          <Button look="quiet" icon="minus" onClick={then(() => sorting.order(column.name, null))}>
            Do not sort by it
          </Button>
        )}
        <Button look="quiet" icon="pin" onClick={then(() => parts.onPin(!parts.isPinned))}>
          {parts.isPinned ? "Unpin column" : "Pin column"}
        </Button>
        <Button look="quiet" icon="fit" onClick={then(parts.onFit)}>Fit width to content</Button>
        <Button look="quiet" icon="close" onClick={then(parts.onHide)}>Hide column</Button>
      </div>
    </Popover>
  );
}

interface FilterParts {
  column: GridColumn;
  headers: GridHeaders;
  onClose: (refocus: boolean) => void;
}

function TypedFilter({ column, headers, onClose }: FilterParts) {
  const text = useSignal(headers.typed(column.name));
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    onClose(true);
    headers.type(column.name, text.value);
  };
  return (
    <form class="sx-head-filter" onSubmit={onSubmit}>
      <label>
        <span>Filter {column.name}</span>
        <input
          class="sx-field" type="text" spellcheck={false} autocomplete="off" value={text.value}
          placeholder={EXAMPLES[column.kind] ?? "> 5, 1 .. 9, null"}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </label>
      <Button look="primary" type="submit">Apply</Button>
    </form>
  );
}
