"""The model of the pager: the rows of an answer, fetched page by page and kept. No widget is needed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.display.preview import largest, whole_or_bounded
from sleeper_nb.errors import InvalidInput
from sleeper_nb.report import MOST_SHOWN, Grid, Report, data_rows
from sleeper_nb.tabular import as_dict

if TYPE_CHECKING:
    from sleeper_nb.public_types import QueryResult


@dataclass(frozen=True, slots=True, repr=False)
class Page(Report):
    """Some rows of an answer.

    Parameters
    ----------
    rows
        The rows.
    first
        The number of rows before them.
    known
        The number of rows that are known to exist.
    whole
        Whether these are all.
    source
        Where they come from: tables, versions, the engine.
    asked
        The requested number of rows; the page has fewer when so many are too large for one output.
    """

    rows: pa.Table
    first: int
    known: int
    whole: bool
    source: str
    asked: int

    @property
    def is_last(self) -> bool:
        """Whether it is the last page."""
        return bool(self.first + self.rows.num_rows >= self.known)

    @property
    def summary(self) -> str:
        """``rows 21–40 of at least 41 · flights at snapshot 12 · duckdb``."""
        of = f"{self.known:,}" if self.whole else f"at least {self.known:,}"
        if not self.rows.num_rows:
            return f"no rows · {self.source}"
        shown = self.rows.num_rows
        less = shown < self.asked and not self.is_last
        limit = f"a page of {self.asked:,} rows is too large: it has {shown:,}" if less else ""
        parts = (f"rows {self.first + 1:,}–{self.first + shown:,} of {of}", limit, self.source)
        return " · ".join(filter(None, parts))

    def grid(self) -> Grid:
        """Return the rows, and a footer that says which they are."""
        cells = data_rows(self.rows)
        return whole_or_bounded(Grid(tuple(self.rows.column_names), cells, footer=self.summary))

    def to_dict(self) -> dict[str, Any]:
        """Return the rows, a list of values per column."""
        return as_dict(self.rows)


def rows_of_page(rows: int) -> int:
    """Return the number of rows of a page; raise when it is out of range."""
    if not 1 <= rows <= MOST_SHOWN:
        raise InvalidInput(f"a page cannot have {rows:,} rows", hint=f"take 1 to {MOST_SHOWN:,} rows a page")
    return rows


class PagesModel:
    """Fetches the rows of a result as far as pages were shown, and keeps them for earlier pages.

    Parameters
    ----------
    result
        The result of the statement; nothing else may read it until `close`.
    """

    def __init__(self, result: QueryResult) -> None:
        self._source = result.source_text
        self._batches: Iterator[pa.Table] | None = result.batches()
        self._fetched: pa.Table | None = None
        self._whole = False
        self._failure: Exception | None = None

    def page(self, first: int, rows: int) -> Page:
        """Return `rows` rows after the first `first`, or as many of them as one output can show.

        When there are fewer rows, this is the last page.

        Raises
        ------
        InvalidInput
            When `first` is negative, or a page would have no row or more than 1,000.
        """
        if first < 0:
            raise InvalidInput(f"{first} is not a valid first row", hint="take 0 or more")
        rows_of_page(rows)
        fetched = self._upto(first + rows + 1)  # one extra row tells whether there are more
        if first >= fetched.num_rows:
            first = max(0, fetched.num_rows - 1) // rows * rows
        known = fetched.num_rows if self._whole else min(fetched.num_rows, first + rows + 1)
        page = Page(fetched.slice(first, rows), first, known, self._whole, self._source, rows)
        shown = len(page.grid().rows)
        return page if shown == page.rows.num_rows else replace(page, rows=fetched.slice(first, shown))

    def page_before(self, first: int, rows: int) -> Page:
        """Return the page that ends just before a row; no row between the two is left out."""

        def reaches(page: Page) -> bool:
            return bool(page.first + page.rows.num_rows >= first)

        page = self.page(max(0, first - rows), rows)
        if reaches(page):
            return page
        return self.page(first - largest(min(rows, first), lambda count: reaches(self.page(first - count, rows))), rows)

    def close(self) -> None:
        """Fetch no more; rows that were fetched can still be shown."""
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()  # type: ignore[attr-defined]  # a generator, which ends what it reads

    def _upto(self, rows: int) -> pa.Table:
        while self._batches is not None and (self._fetched is None or self._fetched.num_rows < rows):
            if self._failure is not None:  # the failure must not be taken for the end of the rows
                raise self._failure
            try:
                batch = next(self._batches, None)
            except Exception as error:
                self._failure = error
                raise
            if batch is None:
                self._batches, self._whole = None, True
            else:
                self._fetched = batch if self._fetched is None else pa.concat_tables([self._fetched, batch])
        return pa.table({}) if self._fetched is None else self._fetched
