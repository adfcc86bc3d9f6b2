"""Statistics of value columns in the metadata files of references: what is written, and what any tool reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import StorageError
from sleeper_nb.model.files import FileReferences
from sleeper_nb.model.statistics import ColumnStatistics
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.metadata import FEW_ROWS, read_files, write_files
from tests.support.builders import KEYED, START, a_file

OF_TYPES: dict[str, tuple[Any, Any]] = {
    "tinyint": (-128, 127),
    "smallint": (-5, 5),
    "int": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
    "date": (-719162, 2932896),
    "timestamp": (-1, 1_700_000_000_000_001),
    "string": ("a", "é"),
    "bytearray": (b"\x00", b"\xff"),
}
NAMES = {f"{prefix}_{kind}": kind for kind in OF_TYPES for prefix in ("min", "max", "nulls")}


def references(count: int) -> FileReferences:
    """Return references to files: every third has no statistics, and every third only nulls."""
    columns = [tuple(ColumnStatistics(kind, kind, *ends, 2**31 - 1) for kind, ends in OF_TYPES.items())]
    columns += [tuple(ColumnStatistics(kind, kind, None, None, 1) for kind in OF_TYPES), ()]
    files = [a_file(f"f{number}", statistics=columns[number % 3]) for number in range(count)]
    return FileReferences.none(KEYED).with_added(files, 2, START)


@pytest.mark.parametrize("count", [6, FEW_ROWS + 1])
def test_statistics_come_back_and_other_tools_read_them(tmp_path: Path, count: int):
    storage, written = Storage(tmp_path), references(count)
    checksum = write_files(storage, "files.parquet", written)
    assert read_files(storage, "files.parquet", checksum).table == written.table
    listed = ", ".join(NAMES)
    found = duckdb.sql(f"SELECT {listed} FROM '{tmp_path}/files.parquet'").to_arrow_table()
    of_duckdb = found.cast(pa.schema([written.schema.field(name) for name in NAMES]))
    assert of_duckdb == written.table.select(list(NAMES)).combine_chunks()


@pytest.mark.parametrize(("count", "usual"), [(6, "SNAPPY"), (FEW_ROWS + 1, "ZSTD")])
def test_numbers_and_times_are_not_compressed(tmp_path: Path, count: int, usual: str):
    write_files(Storage(tmp_path), "files.parquet", references(count))
    group = pq.read_metadata(tmp_path / "files.parquet").row_group(0)
    columns = {column.path_in_schema: column for column in map(group.column, range(group.num_columns))}
    for name, column in columns.items():
        is_text = NAMES.get(name) in {"string", "bytearray"} and not name.startswith("nulls")
        assert column.compression == (usual if is_text or name not in NAMES else "UNCOMPRESSED"), name
        assert column.is_stats_set == (name not in NAMES), name
        assert not {"BYTE_STREAM_SPLIT", "DELTA_BINARY_PACKED"} & {*column.encodings}, name


def test_a_file_of_an_earlier_build_reads_the_same(tmp_path: Path):
    storage, written = Storage(tmp_path), references(FEW_ROWS + 1)
    write_files(storage, "new.parquet", written)
    stamp = pq.read_schema(tmp_path / "new.parquet").metadata
    pq.write_table(
        written.table.replace_schema_metadata({b"sleeper_nb.format": stamp[b"sleeper_nb.format"]}),
        tmp_path / "old.parquet",
        compression="zstd",
        use_dictionary=["partition_id", "status", "job_id"],
        write_page_checksum=True,
    )
    assert read_files(storage, "old.parquet").table == read_files(storage, "new.parquet").table


@pytest.mark.parametrize("part", ["full_manifest_list", "partitions_path"])
def test_the_metadata_of_another_version_is_refused(tmp_path: Path, part: str):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "int"}), state_store="S3StateStore")
        table.ingest([{"k": 1}])
        early = table.create_savepoint("early")
        table.maintenance.split(at=5)
        table.ingest([{"k": 9}])
        late = table.create_savepoint("late")
        assert table.scan(version="savepoint.late").count() == 2
    old, new = (Path(table._store.storage.root) / getattr(each, part) for each in (early, late))
    shutil.copy(old, new)
    with sl.connect(tmp_path) as session:
        with pytest.raises(StorageError, match=f"{new.name} is damaged"):
            session.table("t").scan(version="savepoint.late").to_arrow()
        with pytest.raises(StorageError):
            session.table("t").ingest([{"k": 3}])
