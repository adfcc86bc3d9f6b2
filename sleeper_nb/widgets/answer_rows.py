"""The rows of an answer, fetched page by page and kept: what the grid of an answer asks. No widget is needed here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.schema import FieldType
from sleeper_nb.report import MOST_SHOWN, values_of
from sleeper_nb.widgets.page_values import cells_of, kind_of, tree_of

if TYPE_CHECKING:
    from sleeper_nb.progress import Watch
    from sleeper_nb.public_types import QueryResult

FIRST_ROWS: Final = 200
"""How many rows come with an answer."""


class AnswerRows:
    """Fetches the rows of a result as far as they were asked for; its methods can be called from several threads.

    Until `close` nothing else may read the batches; `kinds` are their types in the words of what made them, and `stop`
    stops what another thread reads of them.
    """

    def __init__(
        self, batches: Iterator[pa.Table], kinds: Sequence[str], stop: Callable[[], None] = lambda: None
    ) -> None:
        self._batches: Iterator[pa.Table] | None = batches
        self._kinds, self._stop = kinds, stop
        self._lock = threading.Lock()
        self._fetched = pa.table({})
        self._failure: Exception | None = None

    @classmethod
    def of(cls, result: QueryResult) -> AnswerRows:
        """Return the rows of a query; nothing else may read them."""
        return cls(result.batches(), result.kinds, result.cancel)

    @classmethod
    def of_table(cls, rows: pa.Table) -> AnswerRows:
        """Return rows that are in memory."""
        return cls(iter([rows]), [str(each) for each in rows.schema.types])

    def page(self, first: int, count: int, watch: Watch) -> dict[str, Any]:
        """Return some rows after the first `first`, and the number of all once that is known."""
        if first < 0 or not 1 <= count <= MOST_SHOWN:
            raise InvalidInput(f"no page has {count:,} rows after {first:,}", hint=f"take 1 to {MOST_SHOWN:,} rows")
        with self._lock:
            fetched = self._upto(first + count + 1, watch)  # one more tells whether it is the last page
            is_whole = self._batches is None and self._failure is None
        return {
            "first": first,
            "rows": cells_of(fetched.slice(first, count)),
            "last": first + count >= fetched.num_rows,
            "total": fetched.num_rows if is_whole else None,
        }

    @property
    def fetched(self) -> pa.Table:
        """The rows that were fetched so far."""
        return self._fetched

    def columns(self) -> list[dict[str, str]]:
        """Return the columns of the rows that were fetched."""
        kinds = zip(self._fetched.schema, self._kinds, strict=True)
        return [
            {"name": each.name, "type": _type_text(each.type, words), "kind": kind_of(each.type)}
            for each, words in kinds
        ]

    def tree(self, row: int, column: str, watch: Watch) -> dict[str, Any]:
        """Return one value as a tree, or its whole text."""
        with self._lock:
            fetched = self._upto(row + 1, watch)
        if not 0 <= row < fetched.num_rows or column not in fetched.column_names:
            raise InvalidInput(f"the answer has no row {row} with a column {column!r}", hint="run the statement again")
        return tree_of(values_of(fetched[column].slice(row, 1))[0])

    def close(self) -> None:
        """Stop fetching, also what another thread fetches now; rows that were fetched can still be shown."""
        self._stop()
        with self._lock:
            batches, self._batches = self._batches, None
        if isinstance(batches, Generator):
            batches.close()

    def _upto(self, rows: int, watch: Watch) -> pa.Table:
        """Return the rows that were fetched, at least so many; without its last batch an answer has failed."""
        while self._batches is not None and self._fetched.num_rows < rows:
            watch.check()
            if self._failure is not None:  # which must not be taken for the end of the rows
                raise self._failure
            try:
                batch = next(self._batches, None)
            except Exception as error:
                self._failure = error
                raise
            if batch is None:
                self._batches = None
                break
            batch = batch.rename_columns(_distinct(batch.column_names))
            self._fetched = pa.concat_tables([self._fetched, batch]) if self._fetched.column_names else batch
        return self._fetched


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of which each occurs once: the second ``n`` is ``n (2)``."""
    found: dict[str, None] = {}
    for name in names:
        number, own = 1, name
        while own in found:
            number += 1
            own = f"{name} ({number})"
        found[own] = None
    return list(found)


def _type_text(kind: pa.DataType, words: str) -> str:
    """Return a type as a table's columns have it; in the engine's words where none of them could have it."""
    try:
        return str(FieldType.from_arrow(kind))
    except InvalidInput:
        return words.lower()
