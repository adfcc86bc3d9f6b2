"""Check data files by reading them: their rows, their order, and their keys against what the metadata says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sleeper_nb.errors import NetworkError
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import key_text
from sleeper_nb.model.partitions import Region
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.types import is_utf8
from sleeper_nb.operations.health.findings import Suspicion
from sleeper_nb.progress import Progress
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import DAMAGED, file_checksum
from sleeper_nb.storage.sorted_keys import SortedKeys


@dataclass(frozen=True, slots=True)
class DataUse:
    """A partition's use of a data file, with what is needed to judge it."""

    reference: FileReference
    region: Region
    schema: Schema

    @property
    def filename(self) -> str:
        """The file."""
        return self.reference.filename


def data_faults(storage: Storage, uses: Sequence[DataUse], progress: Progress) -> Iterator[Suspicion]:
    """Read each data file once and yield what is wrong with it."""
    by_file: dict[str, list[DataUse]] = defaultdict(list)
    for use in uses:
        by_file[use.filename].append(use)
    for i, (filename, of_file) in enumerate(by_file.items()):
        progress.update("reading data files", i, len(by_file))
        try:
            if not _is_as_written(storage, filename, of_file):
                what = f"{filename} {DAMAGED}"
                yield Suspicion("data file", what, "its rows may be wrong, or lost", filename=filename)
                continue
            found, bad_texts = read_through(storage, filename, of_file[0].schema)
        except NetworkError:
            raise  # says nothing about the file
        except Exception as error:  # noqa: BLE001 - whatever a damaged file makes of a read is a finding
            why = getattr(error, "message", None) or str(error).partition("\n")[0]
            what = f"{filename} cannot be read: {why}"
            yield Suspicion("data file", what, "its rows are lost", filename=filename)
            continue
        for name in bad_texts:
            what = f"{filename} has text that is not UTF-8 in column {name!r}"
            means = "queries of that column fail; ingest its rows again, and roll back to a version without this file"
            yield Suspicion("data file", what, means, filename=filename)
        for what, means in dict.fromkeys(_faults(found, of_file)):
            yield Suspicion("data file", f"{filename} {what}", means, filename=filename)


def _is_as_written(storage: Storage, filename: str, uses: Sequence[DataUse]) -> bool:
    """Return whether a file has the checksum that its references record; files of older releases have none."""
    recorded = {use.reference.checksum for use in uses} - {None}
    return not recorded or recorded == {file_checksum(storage, filename)}


def read_through(storage: Storage, filename: str, schema: Schema) -> tuple[SortedKeys, tuple[str, ...]]:
    """Read all columns of a data file, some batches at a time; return its keys, and which columns have bad text."""
    found, columns = SortedKeys(schema), pa.schema([schema.arrow.field(name) for name in schema.sort_order])
    bad_texts: dict[str, None] = {}
    with storage.input(filename) as stream, pq.ParquetFile(stream, page_checksum_verification=True) as file:
        for batch in file.iter_batches():
            bad_texts |= {
                name: None
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
                if not is_utf8(column)
            }
            found.see(pa.Table.from_batches([batch]).select(schema.sort_order).cast(columns))
        if found.rows != file.metadata.num_rows:
            raise pa.ArrowInvalid(f"its footer says {file.metadata.num_rows:,} rows, it has {found.rows:,}")
    return found, tuple(bad_texts)


def _faults(found: SortedKeys, uses: Sequence[DataUse]) -> Iterator[tuple[str, str]]:
    if not found.in_order:
        order = ", ".join(uses[0].schema.sort_order)
        yield f"is not sorted by {order}", "scans and compactions may give rows in a wrong order, or miss some"
    for use in uses:
        said = use.reference
        if said.only_this_partition and said.rows_exact and said.rows != found.rows:
            yield f"has {found.rows:,} rows, not {said.rows:,}", "counts are not what a scan reads"
        if not said.only_this_partition and said.rows > found.rows:
            yield f"has {found.rows:,} rows, fewer than {said.rows:,}", "counts are not what a scan reads"
        for i, field in enumerate(use.schema.row_keys):
            low, high = found.least[i], found.greatest[i]
            if low is None or high is None:
                continue
            keys = f"has {field.name} {key_text(low)} to {key_text(high)}"
            here = use.region.ranges[i]
            if said.only_this_partition and not (low in here and high in here):
                yield f"{keys}, outside its partition's {here}", "a query for those keys misses its rows"
            elif low < said.min_key[i] or high > said.max_key[i]:
                recorded = f"{key_text(said.min_key[i])} to {key_text(said.max_key[i])}"
                yield f"{keys}, recorded as {recorded}", "a query for those keys may miss its rows"
