"""Whether a bulk load merges its sorted runs, or writes each as data files, which a later compaction merges. Pure.

A run is a slice of the rows that was sorted at once. Without a merge, each leaf gets a data file of every run that has
rows of it: the load is done sooner, and readers merge the files until a compaction has. Scans, commits and requests to
a bucket grow with these files, so there is a bound; a load that would be beyond it merges all runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.properties import IMPORT_TASK_BYTES

MOST_OF_LEAF: Final = 20
MOST_IN_ALL: Final = 10_000
"""The most files that a load without a merge should add to a leaf, and to all leaves."""
FEW: Final = 12
"""So many files of a leaf at most, where nobody asked: a compaction with default settings merges them in one job."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Which runs of a load become data files.

    Parameters
    ----------
    most
        So many runs become files; further ones, if the data is larger than it seemed, are merged. 0: all are merged.
    expected
        About how many runs become files, which is how many files a leaf gets; 0 where all are merged.
    note
        Why all are merged although no merge was asked for; "" where that is not so.
    """

    most: int = 0
    expected: int = 0
    note: str = ""

    @classmethod
    def of(cls, total_bytes: int, run_bytes: int, workers: int, leaves: int) -> RunFiles:
        """Return which runs become files where no merge is asked for.

        Parameters
        ----------
        total_bytes
            About how many bytes of rows there are; 0 when that is not known.
        run_bytes
            How many of them make a run.
        workers
            How many threads or tasks sort rows, each its own runs.
        leaves
            How many leaves the table has.

        Returns
        -------
        All are merged, with the reason, where there would be more files than there should be.
        """
        most, expected = most_runs(leaves), workers * max(1, math.ceil(total_bytes / workers / max(1, run_bytes)))
        if expected <= most:
            return cls(most, expected)
        bound = f"limit {most}" + (f" with {leaves:,} leaves" if most < MOST_OF_LEAF else "")
        note = (
            f"sorted runs will be merged anyway: each leaf would get about {expected:,} files ({bound}); "
            f"a larger {IMPORT_TASK_BYTES} makes fewer"
        )
        return cls(note=note)

    def if_few(self) -> RunFiles:
        """Return the same where a leaf gets few files; where it gets more, all runs are merged."""
        return self if self.expected <= FEW else ALL_MERGED

    def of_worker(self, workers: int) -> int:
        """Return how many runs each of some workers may write as files: at least one, unless all are merged."""
        return max(1, self.most // workers) if self.most else 0


ALL_MERGED: Final = RunFiles()


def most_runs(leaves: int) -> int:
    """Return how many runs may become files of a table with so many leaves."""
    return min(MOST_OF_LEAF, MOST_IN_ALL // leaves)


def most_of_leaf(references: Iterable[FileReference]) -> int:
    """Return the most files that one leaf has in some references."""
    return max(Counter(each.partition_id for each in references).values(), default=0)


def unmerged_note(files: int) -> str:
    """Return what a report says of a load that adds so many files to a leaf; "" when there is nothing to merge."""
    return f"up to {files:,} files of each leaf, which compaction merges" if files > 1 else ""
