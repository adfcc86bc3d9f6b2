"""Sums over file references: references, data files, rows and bytes, where partitions may share a file. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.model.file_reference import FileReference


class Totals(NamedTuple):
    """The number of active references, of their rows, and of the bytes of their files."""

    files: int = 0
    rows: int = 0
    bytes: int = 0

    def plus(self, references: pa.RecordBatch | pa.Table, sign: int = 1) -> Totals:
        """Return the totals after adding references; after removing them when the sign is -1."""
        rows, size = (pc.sum(references[name]).as_py() or 0 for name in ("rows", "bytes"))
        return Totals(self.files + sign * references.num_rows, self.rows + sign * rows, self.bytes + sign * size)

    def plus_values(self, references: Sequence[FileReference]) -> Totals:
        rows, size = sum(each.rows for each in references), sum(each.bytes for each in references)
        return Totals(self.files + len(references), self.rows + rows, self.bytes + size)


def data_files(references: pa.Table) -> tuple[int, int]:
    """Return the number of data files and their bytes; a file that several partitions share counts once."""
    if pc.count_distinct(references["filename"]).as_py() == references.num_rows:  # far cheaper than grouping
        return references.num_rows, pc.sum(references["bytes"]).as_py() or 0
    sizes = references.group_by("filename").aggregate([("bytes", "max")])
    return sizes.num_rows, pc.sum(sizes["bytes_max"]).as_py() or 0


class Shared(NamedTuple):
    """The data files that several partitions may share.

    Parameters
    ----------
    uses
        For each filename, the number of active references and the bytes of the file.
    references, bytes
        How much counting each reference overstates the number of files and their bytes.
    """

    uses: Mapping[str, tuple[int, int]]
    references: int
    bytes: int

    @classmethod
    def of(cls, active: pa.Table) -> Shared:
        """Return the shared files among some active references."""
        shared = active.filter(pc.invert(active["only_this_partition"]))
        if not shared.num_rows:  # grouping imports pandas, which takes longer than a small query
            return cls.counting({})
        groups = shared.group_by("filename").aggregate([("bytes", "count"), ("bytes", "max")])
        names, counts, sizes = (groups[n].to_pylist() for n in ("filename", "bytes_count", "bytes_max"))
        return cls.counting(dict(zip(names, zip(counts, sizes, strict=True), strict=True)))

    @classmethod
    def counting(cls, uses: Mapping[str, tuple[int, int]]) -> Shared:
        extra = [(count - 1, (count - 1) * size) for count, size in uses.values()]
        return cls(uses, sum(count for count, _ in extra), sum(size for _, size in extra))

    def changed(self, references: Iterable[tuple[str, int]], sign: int) -> Shared:
        """Return the files after adding references (filename, bytes); after removing them when the sign is -1."""
        changes = list(references)
        if not changes:
            return self
        uses = dict(self.uses)
        for name, size in changes:
            count = uses.get(name, (0, 0))[0] + sign
            if count:
                uses[name] = count, size
            else:
                del uses[name]
        return Shared.counting(uses)
