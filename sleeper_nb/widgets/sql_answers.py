"""SQL at the chosen version, its rows and chart, and what may come next while it is typed, as answers to requests.

A statement that changes something is not run: its plan is the answer.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.display.listings import Pictured
from sleeper_nb.display.preview import Reads
from sleeper_nb.errors import InvalidInput, NoDryRun, NotFound, SleeperError
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.public_types import QueryResult
from sleeper_nb.report import Listing, notes_line
from sleeper_nb.sql_text import FUNCTIONS, KEYWORDS, is_query, next_words, with_version
from sleeper_nb.widgets.answer_rows import FIRST_ROWS, AnswerRows
from sleeper_nb.widgets.chart_answer import ChartChoice, answer_of
from sleeper_nb.widgets.statement_plan import plan_of

if TYPE_CHECKING:
    import pyarrow as pa

    from sleeper_nb.model.savepoints import RetainedVersions
    from sleeper_nb.progress import Watch
    from sleeper_nb.widgets.open_tables import OpenTables

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MOST_OPTIONS: Final = 200
_LONGEST: Final = 500
"""Characters before the cursor that are looked at: a search in a long text would take long."""
_TABLE_NEXT: Final = re.compile(r"\b(FROM|JOIN|INTO|UPDATE|TABLE|DESCRIBE|SUMMARIZE)\s+[\w\"-]*$", re.IGNORECASE)
"""The end of a text after which a table is named."""
_VERSION_NEXT: Final = re.compile(r"([\w-]+)\"?\s+VERSION\s+AS\s+OF\s+('?)([\w.-]*)$", re.IGNORECASE)


class ShownAnswer:
    """Answers `page`, `cell` and `chart` of one answer, the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: _Shown | None = None

    def show(self, result: QueryResult, statement: str) -> None:
        """Answer about a result of a statement; nothing else may read it until `close`."""
        self._keep(_Shown(AnswerRows.of(result), result, partial(sql_line, statement)))

    def page(self, asked: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
        """Return some rows of the answer; with the first of them, its columns."""
        rows = self._answered().rows
        page = rows.page(asked["first"], asked["count"], watch)
        return {**page, "columns": rows.columns()} if asked["first"] == 0 else page

    def cell(self, asked: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
        """Return a value of the answer as a tree."""
        return {"tree": self._answered().rows.tree(asked["row"], asked["column"], watch)}

    def chart(self, asked: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
        """Return a chart of the answer; the engine reads its rows apart from those of the grid."""
        shown = self._answered()
        if shown.result is None:
            raise InvalidInput("there is no chart of a listing", hint="run a query")
        choice = ChartChoice.of(asked, shown.result.names)
        apart = shown.result.again()
        with watch.stopping(apart.cancel):
            chart = apart.plot(choice.kind, choice.x or None, choice.y or None, color=choice.color or None)
        return answer_of(chart, shown.result.source_text, shown.line(choice.options))

    def fetched(self) -> pa.Table | None:
        """Return the rows of the answer that were fetched so far; None when there is no answer."""
        with self._lock:
            return None if self._shown is None else self._shown.rows.fetched

    def close(self) -> None:
        """Forget the answer, and stop reading it."""
        self._keep(None)

    def _keep(self, shown: _Shown | None) -> None:
        with self._lock:
            before, self._shown = self._shown, shown
        if before is not None:
            before.rows.close()

    def _answered(self) -> _Shown:
        with self._lock:
            shown = self._shown
        if shown is None:
            raise NotFound("there is no answer any more", hint="run the statement again")
        return shown


class SqlAnswers(ShownAnswer):
    """Answers `sql` and `complete`, and remembers one answer, of the last statement."""

    def __init__(self, tables: OpenTables) -> None:
        super().__init__()
        self._tables = tables

    def sql(self, asked: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
        """Run a query at a version of a table, on DuckDB; of a statement that changes something, return its plan.

        Where the statement reads the table without a version, it reads the version. The `offset` of an error is the
        place in the statement as it was typed.
        """
        self.close()
        began, text = time.perf_counter(), asked["text"]
        if not text.strip():
            raise InvalidInput("there is no statement", hint=f"write FROM {_written(asked['table'])} LIMIT 100")
        versioned = with_version(text, asked["table"], asked["version"])
        try:
            answer = self._answer(versioned.text, watch)
        except SleeperError as error:
            if error.offset is not None:
                error.offset = versioned.written_offset(error.offset)
            raise
        if answer["kind"] == "rows":
            answer["seconds"] = round(time.perf_counter() - began, 3)
        return answer

    def complete(self, asked: Mapping[str, Any], _: Watch) -> dict[str, Any]:
        """Return what may come at a place of a statement."""
        text = asked["text"]
        typed = text.encode("utf-16-le")[: 2 * asked["at"]].decode("utf-16-le", "ignore")
        begun, options = self._words(typed, text, asked.get("table", ""))
        return {"from": asked["at"] - len(begun.encode("utf-16-le")) // 2, "options": options}

    def _answer(self, statement: str, watch: Watch) -> dict[str, Any]:
        is_read = is_query(statement)
        try:
            answer = self._tables.session.sql(statement, engine="duckdb", data={}, dry_run=not is_read)
        except NoDryRun as error:
            return {"kind": "plan", "plan": plan_of(error, statement)}
        watch.check()
        line = partial(sql_line, statement)
        if isinstance(answer, QueryResult):
            source = notes_line(answer.source_text, _reads(answer))
            with watch.stopping(answer.cancel):
                return self._shown_rows(_Shown(AnswerRows.of(answer), answer, line), source, watch)
        if isinstance(answer, Listing | Pictured):
            return self._shown_rows(_Shown(AnswerRows.of_table(answer.to_arrow()), None, line), "metadata", watch)
        return {"kind": "plan", "plan": plan_of(answer, statement)}

    def _shown_rows(self, shown: _Shown, source: str, watch: Watch) -> dict[str, Any]:
        first = shown.rows.page(0, FIRST_ROWS, watch)
        self._keep(shown)
        rows = {"rows": first["rows"], "last": first["last"]}
        return {"kind": "rows", "columns": shown.rows.columns(), **rows, "source": source, "line": shown.line("")}

    # Completion.

    def _words(self, typed: str, text: str, table: str) -> tuple[str, list[dict[str, str]]]:
        names = _NamesHere(self._tables, table)
        end = typed[-_LONGEST:]
        if found := _VERSION_NEXT.search(end):
            words = names.references(found[1]) if found[2] else names.snapshots(found[1])
            quote = found[2]
            return found[3], _options(words, found[3], "version", lambda word: f"{word}{quote}")
        next_ones = next_words(typed, text, names)
        begun = next_ones.fragment
        if next_ones.kind == "version":
            return begun, _options(next_ones.words, begun, "version")
        if next_ones.kind == "system table":
            return begun, _options(next_ones.words, begun, "table")
        if next_ones.kind == "column":
            return begun, _options(next_ones.words, begun, "column", _written)
        if not begun:
            return "", []
        tables, columns = set(names.tables()), (*names.columns_here(), *next_ones.words)
        of_tables = _options([each for each in next_ones.words if each in tables], begun, "table", _written)
        of_columns = _options([each for each in columns if each not in tables], begun, "column", _written)
        named = [*of_tables, *of_columns] if _TABLE_NEXT.search(end) else [*of_columns, *of_tables]
        functions = _options(FUNCTIONS, begun, "function", lambda word: f"{word}(")
        return begun, [*named, *functions, *_options(KEYWORDS, begun, "keyword")][:_MOST_OPTIONS]


@dataclass(frozen=True, slots=True)
class _Shown:
    """An answer: its rows, the result that has them if it is one of a query, and its cell with some options."""

    rows: AnswerRows
    result: QueryResult | None
    line: Callable[[str], str]


class _NamesHere:
    """The names that a statement can use."""

    def __init__(self, tables: OpenTables, table: str) -> None:
        self._tables, self._table = tables, table

    def tables(self) -> Sequence[str]:
        return self._tables.names()

    def columns(self, table: str) -> Sequence[str]:
        return self._tables.table(table).at().schema.names

    def columns_here(self) -> Sequence[str]:
        """Return the columns of the table that is shown; a statement that names none begins with them."""
        try:
            return self.columns(self._table) if self._table else ()
        except NotFound:
            return ()

    def versions(self, table: str) -> Sequence[str]:
        found = self._versions(table)
        if found is None:
            return ()
        return [*(point.reference for point in found.savepoints), *(str(each.id) for each in found.snapshots)]

    def references(self, table: str) -> list[str]:
        """Return what can be written between quotes after VERSION AS OF."""
        found = self._versions(table)
        return [] if found is None else [f"savepoint.{each.name or each.id}" for each in found.savepoints]

    def snapshots(self, table: str) -> list[str]:
        """Return the numbers of versions, the newest first."""
        found = self._versions(table)
        return [] if found is None else [str(each.id) for each in found.snapshots]

    def _versions(self, table: str) -> RetainedVersions | None:
        return self._tables.versions(table) if table in self.tables() else None

    def variables(self) -> Sequence[str]:
        return ()


def _options(words: Sequence[str], begun: str, kind: str, applied: Callable[[str], str] = str) -> list[dict[str, str]]:
    folded = begun.casefold()
    fitting = (word for word in dict.fromkeys(words) if word.casefold().startswith(folded))
    return [{"label": word, "apply": applied(word), "kind": kind} for word in islice(fitting, _MOST_OPTIONS)]


def _written(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else quoted_name(name)


def _reads(result: QueryResult) -> str:
    return Reads.of(source.plan for source in result.sources if source.plan is not None).in_short


def sql_line(statement: str, options: str = "") -> str:
    """Return the cell that runs a statement as the explorer does, with more options."""
    return f"{f'%%sleeper sql --engine duckdb {options}'.rstrip()}\n{statement.strip()}"
