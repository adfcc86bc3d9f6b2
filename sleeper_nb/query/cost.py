"""What a query costs and how an engine would run it: answers that read no row."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from sleeper_nb.errors import visible
from sleeper_nb.query.engine_choice import ChosenEngine
from sleeper_nb.read.request_estimate import RequestEstimate, query
from sleeper_nb.report import Bytes, Grid, TableReport
from sleeper_nb.sql.binding import BoundSource


@dataclass(frozen=True, slots=True, repr=False)
class QueryCost(TableReport):
    """What a statement reads of each table and version; no row is read to find out.

    Parameters
    ----------
    sources
        The tables and versions, in the statement's order; one that is named twice counts twice.
    chosen
        Which engine reads them, and why.
    variables
        The variables that are read, as text.
    is_counted
        Whether the rows were counted, so that the engine has run the statement.

    Notes
    -----
    Bytes are the sizes of the files that are opened. An engine skips columns and row groups that the statement does not
    need.
    """

    sources: tuple[BoundSource, ...]
    chosen: ChosenEngine
    variables: tuple[str, ...] = ()
    is_counted: bool = False

    @property
    def bytes(self) -> int:
        """The sizes of the files of all sources."""
        return sum(source.bytes for source in self.sources)

    @property
    def requests(self) -> RequestEstimate | None:
        """About what the statement asks of S3; None when no table is there."""
        away = [source for source in self.sources if not source.storage.local and source.plan is not None]
        return query(sum(_counts(source)[1] or 0 for source in away)) if away else None

    def grid(self) -> Grid:
        """Return a row for each source."""
        sources = tuple((f"{source}", *_cells(source)) for source in self.sources)
        rows = (*sources, *((variable, "memory", None, None, None) for variable in self.variables))
        footer = f"{self.chosen} {'counted the rows' if self.is_counted else 'would run it; no row was read'}"
        if self.requests is not None:
            footer += f"\n{self.requests}"
        return Grid(("reads", "partitions", "files", "bytes at most", "row keys"), rows, footer=footer)

    def to_dict(self) -> dict[str, Any]:
        """Return the sources, as shown, the engine, and why it was chosen."""
        names = ("source", "partitions", "files", "bytes", "keys")
        cells = [(str(source), *_counts(source), source.keys or None) for source in self.sources]
        return {
            "engine": self.chosen.name,
            "why": self.chosen.why or None,
            "reads": [dict(zip(names, each, strict=True)) for each in cells],
            "variables": list(self.variables),
        }


def _counts(source: BoundSource) -> tuple[int | None, int | None, int]:
    plan = source.plan
    if plan is None:  # a system table: metadata
        return None, None, 0
    return len(plan.leaves), len({file.filename for file in plan.files}), plan.bytes


def _cells(source: BoundSource) -> tuple[object, ...]:
    partitions, files, size = _counts(source)
    if source.plan is None:
        return "metadata", None, None, None
    whole = source.plan.leaves_of, source.plan.files_of
    return f"{partitions:,} of {whole[0]:,}", f"{files:,} of {whole[1]:,}", Bytes(size), source.keys or None


@dataclass(frozen=True, slots=True, repr=False)
class EnginePlan(TableReport):
    """The plan of a statement in its engine's own words; `to_dict` has the whole text."""

    engine: str
    text: str

    def grid(self) -> Grid:
        """Return the plan, line by line."""
        return Grid((f"plan of {self.engine}",), tuple((line,) for line in self.text.splitlines()))

    def __repr__(self) -> str:
        return f"plan of {self.engine}\n{visible(self.text)}"

    def _repr_html_(self) -> str:
        return f"<div><b>plan of {html.escape(self.engine)}</b></div><pre>{html.escape(visible(self.text))}</pre>"
