"""What the explorer answers about tables: their names and schemas, their versions, and the rows of a version."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.display.timeline_picture import change_text
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.savepoints import savepoints_by_snapshot
from sleeper_nb.model.snapshots import to_micros
from sleeper_nb.report import counted
from sleeper_nb.tabular import as_pandas
from sleeper_nb.widgets.page_values import cells_of, header_of, kind_of, tree_of
from sleeper_nb.widgets.row_grid_query import ColumnFilter, GridQuery, GridSort
from sleeper_nb.widgets.table_search import TableSearch
from sleeper_nb.widgets.version_statement import rows_of

if TYPE_CHECKING:
    from sleeper_nb.model.savepoints import RetainedVersions
    from sleeper_nb.model.schema import Field
    from sleeper_nb.model.snapshots import Snapshot
    from sleeper_nb.progress import Watch
    from sleeper_nb.table import Table
    from sleeper_nb.widgets.open_tables import OpenTables
    from sleeper_nb.widgets.request_lanes import Answer, Message
    from sleeper_nb.widgets.row_grid_model import RowGridModel

MOST_COLUMNS: Final = 200
"""The most columns of a block of rows and of an answer about headers: more than a screen shows."""
_MOST_GROWTH: Final = 40
_ELSEWHERE: Final = frozenset({"sleeper.table.schema", "sleeper.table.name", "sleeper.table.id"})
"""Properties that the answer has under other names."""
_BARS: Final = {"bars", "value"}
"""What a filter of bars has."""
_DUE: Final = {
    "compact": "compaction",
    "split": "split",
    "expire": "expiry",
    "collect-garbage": "garbage collection",
}


@dataclass(frozen=True, slots=True)
class Notebook:
    """What a page can do in its notebook: put a text into a new cell, and set variables; None for what it cannot."""

    write: Any = None
    variables: MutableMapping[str, Any] | None = None

    @classmethod
    def here(cls) -> Notebook:
        """Return the notebook whose cell runs; only a real kernel takes a new cell."""
        from IPython import get_ipython

        shell = get_ipython()
        if shell is None:
            return cls()
        return cls(shell.set_next_input if hasattr(shell, "kernel") else None, shell.user_ns)

    def write_cell(self, asked: Message, _: Watch) -> Answer:
        """Put a text into a new cell, which appears below the next cell that runs."""
        if self.write is None:
            raise InvalidInput("there is no notebook to write to", hint="copy the cell")
        self.write(str(asked["text"]))
        return {"sentence": "The cell appears below the next cell that you run."}


class ExplorerAnswers:
    """Answers what is asked about tables and their rows; nothing of a table is changed."""

    def __init__(self, tables: OpenTables, notebook: Notebook) -> None:
        self._tables, self._notebook = tables, notebook
        self._search = TableSearch(tables.session)

    # Tables

    def tables(self, _: Message, __: Watch) -> Answer:
        """Return the names of all tables."""
        return {"names": list(self._tables.names())}

    def details(self, asked: Message, watch: Watch) -> Iterator[Answer]:
        """Yield the size, the growth and what is due of some tables, as far as they are known."""
        found: list[Answer] = []
        for name in asked["names"]:
            watch.check()
            found.append(self._details(name))
            yield {"tables": list(found)}

    def _details(self, name: str) -> Answer:
        try:
            table = self._tables.table(name)
            status, versions = table.inspect.status(), table.inspect.versions()
        except SleeperError as error:
            return {"name": name, "rows": 0, "bytes": 0, "growth": [], "due": [], "problem": error.message}
        rows = [each.rows for each in sorted(versions.snapshots, key=lambda each: each.id)]
        due = (_DUE.get(step.command) for step in status.next_steps)
        return {
            "name": name,
            "rows": status.rows,
            "bytes": status.bytes,
            "growth": _some_of(rows),
            "due": list(dict.fromkeys(filter(None, due))),
            "problem": "",
        }

    def search(self, asked: Message, watch: Watch) -> Iterator[Answer]:
        """Yield the tables that a text finds: first by their names, then by what is written in their schemas."""
        names, words = self._tables.names(), str(asked["text"]).casefold().split()
        yield self._found(names, words)
        self._search.read(watch)
        yield self._found(names, words)

    def _found(self, names: tuple[str, ...], words: list[str]) -> Answer:
        reasons = ((name, self._search.reason(name, words)) for name in names)
        found = sorted(((name, why) for name, why in reasons if why is not None), key=lambda each: bool(each[1]))
        return {"found": [{"name": name, "reason": why} for name, why in found]}

    # One table

    def open(self, asked: Message, _: Watch) -> Answer:
        """Return the versions of a table that can be chosen; the catalog is asked for them again."""
        self._tables.forget(asked["table"])
        table = self._tables.table(asked["table"])
        versions = versions_of(table.inspect.versions())
        comment = self._tables.at(table.name, versions["number"][-1]).schema.comment
        return {"name": table.name, "comment": comment or "", "versions": versions, "actions": True}

    def schema(self, asked: Message, _: Watch) -> Answer:
        """Return the columns of a version, its totals, and the properties of its table that someone set."""
        name, number = asked["table"], int(asked["version"])
        at = self._tables.at(name, number)
        state, schema = at.state, at.schema
        files, _rows, size = state.files.data_totals
        roles = {each.name: "row key" for each in schema.row_keys} | {
            each.name: "sort key" for each in schema.sort_keys
        }
        return {
            "version": number,
            "columns": [_column(each, roles.get(each.name, "")) for each in schema.fields],
            "rows": state.totals().rows,
            "bytes": size,
            "files": files,
            "partitions": len(state.tree.leaves),
            "comment": schema.comment or "",
            "properties": _set_properties(self._tables.table(name)),
            "line": f"%sleeper describe {at.name}@{number} --fields",
        }

    def commit(self, asked: Message, _: Watch) -> Answer:
        """Return what the versions of `open` do not say about one of them: its files, and details in words."""
        snapshots = self._tables.table(asked["table"]).inspect.versions().snapshots
        snapshot = next((each for each in snapshots if each.id == asked["version"]), None)
        if snapshot is None:  # only savepoints hold the version
            return {"files": 0, "details": []}
        given = {
            "by": snapshot.author,
            "job id": snapshot.job_id,
            "files added": f"{snapshot.added_files:,}" if snapshot.added_files else None,
            "files removed": f"{snapshot.removed_files:,}" if snapshot.removed_files else None,
            **{f"rows that break {name}": f"{count:,}" for name, count in snapshot.broken_expectations.items()},
        }
        return {"files": snapshot.files, "details": [[name, text] for name, text in given.items() if text]}

    # The rows of a version

    def rows(self, asked: Message, watch: Watch) -> Answer:
        """Return a block of the rows that a query finds, in its order."""
        model, query = self._asked(asked, watch)
        columns = tuple(map(str, asked["columns"][:MOST_COLUMNS]))
        page = model.page(replace(query, columns=columns, first=int(asked["first"]), rows=int(asked["count"])), watch)
        where = model.where(query)
        condition = f"where={where!r}" if where else ""
        return {
            "version": int(asked["version"]),
            "first": page.query.first,
            "rows": cells_of(page.rows),
            "columns": page.rows.column_names,
            "total": page.total,
            "last": page.is_last,
            "where": where,
            "line": page.line,
            "scan": f"session.table({asked['table']!r}).at({asked['version']}).scan({condition})",
            "source": page.reads,
        }

    def headers(self, asked: Message, watch: Watch) -> Answer:
        """Return what the headers of some columns show; of a large version only when it is to be read."""
        model, query = self._asked(asked, watch)
        version = int(asked["version"])
        if not model.is_quick and not asked["all"]:
            return {"version": version, "headers": {}, "unread": str(model.bytes)}
        summaries = model.summaries(asked["columns"][:MOST_COLUMNS], query, watch)
        return {"version": version, "headers": {each.column.name: header_of(each) for each in summaries}, "unread": ""}

    def cube(self, asked: Message, watch: Watch) -> Answer:
        """Return the bars of other columns counted by the bars of one, so that a brush over it asks nothing more."""
        brushed = asked["column"]
        model = self._tables.rows(asked["table"], int(asked["version"]))
        filters = [each for each in asked["query"]["filters"] if each["column"] != brushed or not _BARS & each.keys()]
        query = query_of(model, {**asked["query"], "filters": filters}, watch)
        cube = model.cube(brushed, asked["columns"][:MOST_COLUMNS], query, watch)
        columns = {name: {"counts": counts, "nulls": cube.nulls[name]} for name, counts in cube.counts.items()}
        return {"version": int(asked["version"]), "column": brushed, "rows": cube.rows, "columns": columns}

    def value(self, asked: Message, watch: Watch) -> Answer:
        """Return one value as a tree, or the whole text of it."""
        model, query = self._asked(asked, watch)
        page = model.page(replace(query, columns=(asked["column"],), first=int(asked["row"]), rows=1), watch)
        return {"tree": tree_of(page.value(0, asked["column"]))}

    def _asked(self, asked: Message, watch: Watch) -> tuple[RowGridModel, GridQuery]:
        model = self._tables.rows(asked["table"], int(asked["version"]))
        return model, query_of(model, asked["query"], watch)

    # The notebook

    def keep(self, asked: Message, watch: Watch) -> Answer:
        """Put all rows that a query finds into a variable, as a pandas DataFrame."""
        name = str(asked["variable"])
        if self._notebook.variables is None:
            raise InvalidInput("there are no variables here", hint="copy the line")
        if not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidInput(f"{name!r} is not a valid variable name", hint="use letters, digits and _")
        model, query = self._asked(asked, watch)
        statement = model.statement(query)
        result = self._tables.at(asked["table"], int(asked["version"])).sql(statement)
        frame = as_pandas(rows_of(result, watch))
        watch.check()
        self._notebook.variables[name] = frame
        line = f"%%sleeper sql --engine duckdb --as pandas -o {name}\n{statement}"
        return {"line": line, "sentence": f"{name} is a DataFrame of {counted(len(frame), 'row')}."}


def query_of(model: RowGridModel, asked: Mapping[str, Any], watch: Watch) -> GridQuery:
    """Return the query of a page for a version; bars mean what its headers show.

    Raise `NotFound` for a column that the version does not have, `InvalidInput` for a value or bar that a column does
    not have.
    """
    filters = (_filter(model, each, watch) for each in asked["filters"])
    sorts = tuple(GridSort(each["column"], bool(each["descending"])) for each in asked["sorts"])
    kept = tuple(each for each in filters if each is not None)
    return GridQuery(sorts=sorts, filters=kept, search=str(asked["search"])).checked_for(model.schema)


def _filter(model: RowGridModel, asked: Mapping[str, Any], watch: Watch) -> ColumnFilter | None:
    name = str(asked["column"])
    if name not in model.fields:
        raise NotFound.of("column", name, model.schema.names)
    match asked:
        case {"bars": [int(begin), int(end)]}:
            return model.bars_of(name, watch).chosen(begin, end)
        case {"value": int(bar)}:
            return model.bars_of(name, watch).chosen(bar, bar)
        case {"low": str() | None as low, "high": str() | None as high}:
            return ColumnFilter.of_keys(model.fields[name], low, high)
        case {"text": str(text)}:
            return ColumnFilter.of_text(model.fields[name], text)
    raise InvalidInput(f"{dict(asked)} is not a filter", hint="a filter has a column, and a text, bars or a value")


def versions_of(found: RetainedVersions) -> Answer:
    """Return the versions of a table that can be chosen, oldest first, one list a property.

    A version whose snapshot has expired is there as long as savepoints hold it.
    """
    saved = savepoints_by_snapshot(found.savepoints)
    snapshots = {each.id: each for each in found.snapshots}
    numbers = sorted(saved.keys() | snapshots.keys())
    versions = [(snapshots.get(number), saved.get(number, ())) for number in numbers]
    return {
        "number": numbers,
        "committed": [_millis(each.time if each else points[0].snapshot_time) for each, points in versions],
        "kind": [each.operation if each else "savepoint" for each, _ in versions],
        "change": [_change(each) if each else "" for each, _ in versions],
        "message": [(each.message if each else None) or "" for each, _ in versions],
        "rows": [each.rows if each else points[0].record_count for each, points in versions],
        "bytes": [each.bytes if each else 0 for each, _ in versions],
        "savepoints": {str(number): [each.name or str(each.id) for each in points] for number, points in saved.items()},
    }


def _change(snapshot: Snapshot) -> str:
    match {verb: rows for verb, rows in snapshot.changed_rows.items() if rows}:
        case {"deleted": rows, **others} if not others:
            return f"−{counted(rows, 'row')}"
        case {"updated": rows, **others} if not others:
            return f"{counted(rows, 'row')} changed"
    return change_text(snapshot).removeprefix(snapshot.operation).strip().replace("-", "−")


def _millis(moment: Any) -> int:
    return to_micros(moment) // 1000


def _some_of(numbers: list[int]) -> list[int]:
    """Return up to 40 of some numbers, evenly spread, with the first and the last."""
    if len(numbers) <= _MOST_GROWTH:
        return numbers
    step = (len(numbers) - 1) / (_MOST_GROWTH - 1)
    return [numbers[round(place * step)] for place in range(_MOST_GROWTH)]


def _set_properties(table: Table) -> list[list[str]]:
    values = (each for each in table.properties() if each.name not in _ELSEWHERE)
    return [[each.name, each.value] for each in values if each.value != each.default]


def _column(field: Field, role: str) -> Answer:
    return {
        "name": field.name,
        "type": field.text,
        "kind": kind_of(field.type.arrow),
        "role": role,
        "nullable": field.nullable,
        "default": field.default_literal,
        "comment": field.comment or "",
    }
