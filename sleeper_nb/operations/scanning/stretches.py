"""A merge of many bytes is cut into stretches of keys, one behind the other, so that its memory has a bound.

DataFusion keeps what it has read of a Parquet file until it closes it (its Parquet reader's issue 9695), so a merge
would hold its whole input in the end. Each stretch opens the files anew, and reads only the pages that hold its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sleeper_nb.model.keys import KeyValue
from sleeper_nb.model.partitions import Range, Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.operations.scanning.footers import row_groups
from sleeper_nb.operations.scanning.planning import PlannedFile
from sleeper_nb.storage.filesystem import Storage

MOST_BYTES = 32 * 2**20
"""Of the inputs of one stretch, about. Longer ones are a tenth quicker, and their memory grows with the input."""


def stretches(
    files: Sequence[PlannedFile], schema: Schema, storage: Storage, most_bytes: int = MOST_BYTES
) -> Iterator[tuple[PlannedFile, ...]]:
    """Yield the files of each stretch, in the order of the keys, each file restricted to the stretch.

    Stretches are cut at values of the first row key where row groups begin, which their statistics tell; so rows of one
    such value are in one stretch, however many they are. What is small enough is one stretch, and no file is opened.
    """
    if sum(file.bytes for file in files) <= most_bytes:
        yield tuple(files)
        return
    groups = [group for file in files for group in _first_keys(file, schema, storage)]
    ends: list[KeyValue | None] = [None, *_cuts(groups, most_bytes), None]
    for low, high in pairwise(ends):
        here = Region.whole(schema).narrowed(0, Range(low, high))
        inside = [(file, part) for file in files if (part := (file.region or here).intersect(here)) is not None]
        yield tuple(file._replace(region=part) for file, part in inside)


def _first_keys(file: PlannedFile, schema: Schema, storage: Storage) -> Iterator[tuple[KeyValue, float]]:
    """Yield the least first row key of each row group, and about how many bytes of the file it has."""
    wanted = Range() if file.region is None else file.region.ranges[0]
    for group in row_groups(file.filename, schema, storage):
        ends = group.ends[0]
        if ends is not None and ends[0] in wanted:
            yield ends[0], sum(group.column_bytes.values())


def _cuts(groups: list[tuple[KeyValue, float]], most_bytes: int) -> Iterator[KeyValue]:
    """Yield keys between which there are about so many bytes."""
    size, last = 0.0, None
    for key, more in sorted(groups):
        if size >= most_bytes and key != last:
            yield key
            size = 0.0
        size, last = size + more, key
