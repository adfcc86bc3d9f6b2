"""Check data files by reading them: their rows, order and keys against what the metadata records. Part of a check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.errors import NetworkError, SleeperError, first_line
from sleeper_nb.maintain.findings import Suspicion
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import key_text
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema, is_utf8
from sleeper_nb.progress import Progress
from sleeper_nb.read.live_rows import positions_of
from sleeper_nb.storage.data_files import SortedKeys
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import CHANGED, DAMAGED, damaged, is_as_recorded
from sleeper_nb.storage.paths import is_foreign

VECTOR: Final = "deletion vector"
"""The kind of findings about the file of a deletion vector."""
LOST_VECTOR: Final = (
    "it is not known which rows are deleted: restore it from a copy, or roll back to a version without it"
)


@dataclass(frozen=True, slots=True)
class DataUse:
    """A reference of a partition to a data file, with the region and the schema to compare the file with."""

    reference: FileReference
    region: Region
    schema: Schema

    @property
    def filename(self) -> str:
        return self.reference.filename


def find_data_faults(
    storage: Storage, uses: Sequence[DataUse], progress: Progress, damaged_files: Collection[str] = ()
) -> Iterator[Suspicion]:
    """Read each data file and its deletion vectors once, and yield what is wrong with them.

    Nothing is yielded for `damaged_files`, which were reported before.
    """
    by_file: dict[str, list[DataUse]] = defaultdict(list)
    for use in uses:
        if use.filename not in damaged_files:
            by_file[use.filename].append(use)
    for i, (filename, of_file) in enumerate(by_file.items()):
        progress.update("reading data files", i, len(by_file))
        try:
            if not _is_as_written(storage, filename, of_file):
                what = f"{filename} {CHANGED if is_foreign(filename) else DAMAGED}"
                yield Suspicion("data file", what, "its rows may be wrong, or lost", filename=filename)
                continue
            keys, bad_texts = _read_through(storage, filename, of_file[0].schema)
        except NetworkError:
            raise  # this says nothing about the file
        except Exception as error:  # noqa: BLE001 - a damaged file can raise anything when it is read
            why = getattr(error, "message", None) or first_line(error)
            what = f"{filename} cannot be read: {why}"
            yield Suspicion("data file", what, "its rows are lost", filename=filename)
            continue
        yield from _vector_faults(storage, of_file, keys.rows, damaged_files)
        for name in bad_texts:
            what = f"{filename} has text that is not UTF-8 in column {name!r}"
            means = "queries of that column fail: roll back to a version without this file, and ingest its rows again"
            yield Suspicion("data file", what, means, filename=filename)
        for what, means in dict.fromkeys(_key_faults(keys, of_file)):
            yield Suspicion("data file", f"{filename} {what}", means, filename=filename)


def _is_as_written(storage: Storage, filename: str, uses: Sequence[DataUse]) -> bool:
    """Return whether a file has the checksum that its references record; True for files of releases without one."""
    recorded = {use.reference.checksum for use in uses}
    return all(is_as_recorded(storage, filename, each) for each in recorded if each is not None)


def _read_through(storage: Storage, filename: str, schema: Schema) -> tuple[SortedKeys, list[str]]:
    """Read all columns of a data file batch by batch; return its keys, and the columns with text that is not UTF-8."""
    keys, columns = SortedKeys(schema), pa.schema([schema.arrow.field(name) for name in schema.sort_order])
    bad_texts: list[str] = []
    with storage.input(filename) as stream, pq.ParquetFile(stream, page_checksum_verification=True) as file:
        for batch in file.iter_batches():
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if name not in bad_texts and not is_utf8(column):
                    bad_texts.append(name)
            keys.see(pa.Table.from_batches([batch]).select(schema.sort_order).cast(columns))
        if keys.rows != file.metadata.num_rows:
            raise pa.ArrowInvalid(f"its footer says {file.metadata.num_rows:,} rows, it has {keys.rows:,}")
    return keys, bad_texts


def _vector_faults(
    storage: Storage, uses: Sequence[DataUse], rows: int, damaged_files: Collection[str]
) -> Iterator[Suspicion]:
    for vector in {use.reference.deletions for use in uses}:
        if vector is None or vector.filename in damaged_files:
            continue
        try:
            positions = positions_of(vector, storage)
            if len(positions) and not 0 <= positions[0] <= positions[-1] < rows:
                raise damaged(storage, vector.filename)
        except NetworkError:
            raise  # this says nothing about the file
        except SleeperError as error:
            what = f"{vector.filename} cannot be read: {error.message}"
            yield Suspicion(VECTOR, what, LOST_VECTOR, filename=vector.filename)


def _key_faults(keys: SortedKeys, uses: Sequence[DataUse]) -> Iterator[tuple[str, str]]:
    """Yield how a file differs from its references, and what that means."""
    if not keys.in_order:
        order = ", ".join(uses[0].schema.sort_order)
        yield f"is not sorted by {order}", "scans and compactions may return rows in the wrong order, or miss some"
    for use in uses:
        reference = use.reference
        is_whole = reference.only_this_partition
        deleted = 0 if reference.deletions is None else reference.deletions.rows
        if is_whole and reference.rows_exact and reference.rows + deleted != keys.rows:
            yield f"has {keys.rows:,} rows, not {reference.rows + deleted:,}", "counts differ from what a scan reads"
        if not is_whole and reference.rows > keys.rows:
            yield f"has {keys.rows:,} rows, fewer than {reference.rows:,}", "counts differ from what a scan reads"
        for i, column in enumerate(use.schema.row_keys):
            low, high = keys.least[i], keys.greatest[i]
            if low is None or high is None:
                continue
            actual = f"has {column.name} {key_text(low)} to {key_text(high)}"
            allowed = use.region.ranges[i]
            if is_whole and not (low in allowed and high in allowed):
                yield f"{actual}, outside its partition's {allowed}", "a query for those keys misses its rows"
            elif low < reference.min_key[i] or high > reference.max_key[i]:
                recorded = f"{key_text(reference.min_key[i])} to {key_text(reference.max_key[i])}"
                yield f"{actual}, recorded as {recorded}", "a query for those keys may miss its rows"
