"""The edit list of a statement: which rows of a version go, and which rows come. Nothing is written yet.

An engine finds the rows; everything after that knows no engine. The counts are exact before anything is written, so a
dry run is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sleeper_nb.load.row_checks import JudgedRows
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.transactions import EditCounts
from sleeper_nb.read.live_rows import Positions


@dataclass(frozen=True, slots=True, eq=False)
class EditList:
    """The rows of one version that a change takes away, and the rows that it adds.

    Parameters
    ----------
    removed
        For each data file, the positions of the rows that go: deleted ones, and the old values of updated ones.
    rows
        The rows that come, with the columns and types of the table, in any order: new values of updated rows, and
        inserted ones.
    counts
        How many rows are inserted, updated and deleted.
    watched
        Where the change depends on which rows there are; empty when rows that others add meanwhile do not matter.
    source_rows
        Rows of the source of a merge; None without a source.
    purged
        Data files that the version may no longer use: what is left of each in a partition is written to another file.
    ignores_added
        Whether it stays right when others add rows there: it is about the rows of its version only.
    with_several
        How many of these each update several rows of the version.
    matched
        How many rows of the source of a merge match a row of the version; None without such a source.
    is_about_all_rows
        Whether a user must confirm it: as `ChangeReport.is_about_all_rows`.
    judged
        How many of the rows that come break each expectation of the table.
    """

    removed: Mapping[str, Positions]
    rows: pa.Table
    counts: EditCounts
    watched: tuple[Region, ...] = ()
    source_rows: int | None = None
    purged: frozenset[str] = frozenset()
    ignores_added: bool = False
    with_several: int = 0
    matched: int | None = None
    is_about_all_rows: bool = False
    judged: JudgedRows = field(default_factory=JudgedRows)

    def __post_init__(self) -> None:
        gone, new = sum(map(len, self.removed.values())), self.rows.num_rows
        done = self.counts
        assert gone == done.updated + done.deleted, "each row that goes is updated or deleted"  # noqa: S101
        assert new == done.updated + done.inserted, "each row that comes is updated or inserted"  # noqa: S101

    @property
    def touched(self) -> frozenset[str]:
        """The data files that lose rows, or are written again."""
        return self.purged | self.removed.keys()

    @property
    def is_empty(self) -> bool:
        return not (self.touched or self.rows.num_rows)
