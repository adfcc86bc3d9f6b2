from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import NotFound, StorageError
from sleeper_nb.read import footers as funnel
from sleeper_nb.storage.file_cache import FileCache
from sleeper_nb.table import Table

SCHEMA = sl.Schema({"key": "string", "n": "int"}, values={"note": "string"})
SMALL = {"sleeper.table.parquet.rowgroup.rows.max": "10"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two leaves of one file of 50 rows each, in row groups of 10."""
    made = sl.connect(tmp_path).create_table("t", SCHEMA, ["b"], properties=SMALL)
    rows: Any = {
        "key": ["a"] * 50 + ["b"] * 50,
        "n": [*range(50), *range(50)],
        "note": [f"note {i}" for i in range(100)],
    }
    made.ingest(pa.table(rows))
    return made


def found(table: Table, **options: Any) -> tuple[int, int]:
    opened = table.scan(**options).plan().opened
    assert opened is not None
    return opened.of, opened.row_groups


def test_row_groups_are_counted_by_the_keys_that_they_hold(table: Table):
    assert found(table) == (10, 10)
    assert found(table, keys="a") == (5, 5)
    assert found(table, keys=("a", 12)) == (5, 1)
    assert found(table, region={"n": (15, 25)}) == (10, 4)
    assert found(table, region={"key": ("b", None), "n": (45, None)}) == (5, 1)
    assert found(table, keys="c") == (0, 0)


def test_bytes_are_those_of_the_columns_that_are_read(table: Table):
    whole, part = table.scan().plan(), table.scan(["note"]).plan()
    key = table.scan(["note"], keys=("a", 12)).plan()
    conditional = table.scan(["note"], "n > 3").plan()
    assert whole.opened is not None
    assert part.opened is not None
    assert key.opened is not None
    assert conditional.opened is not None
    assert key.opened.bytes < part.opened.bytes < whole.opened.bytes < whole.bytes
    assert conditional.opened.bytes == whole.opened.bytes


def test_the_plan_is_shown_as_a_funnel(table: Table):
    shown = repr(table.scan(keys=("a", 12)).plan())
    assert [line.split()[:1] for line in shown.splitlines()[3:]] == [["partitions"], ["files"], ["row"], ["bytes"]]
    assert "row groups of these files        5      1  ████" in shown
    assert "██████████" in shown
    assert table.scan(keys="c").plan().grid().rows[1][2:] == (0, "")


def test_a_plan_is_as_good_as_a_scan_that_reads(table: Table):
    for options in ({}, {"keys": ("a", 12)}, {"region": {"n": (15, 25)}}):
        _, groups = found(table, **options)
        assert groups * 10 >= table.scan(**options).to_arrow().num_rows > (groups - 4) * 10


def test_footers_of_too_many_files_are_left_alone(table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(funnel, "MOST_FOOTERS", 1)
    assert table.scan().plan().opened is None
    assert "row groups" not in repr(table.scan().plan())
    assert found(table, keys="a") == (5, 5)


@pytest.mark.parametrize(("harm", "error"), [("gone", NotFound), ("cut", StorageError)])
def test_a_file_that_is_gone_or_harmed_is_named(table: Table, harm: str, error: type):
    storage = table._store.storage
    (path, *_) = (Path(storage.locate(name)) for name in table.at().state.files.active["filename"].to_pylist())
    path.unlink() if harm == "gone" else path.write_bytes(b"PAR1")
    with pytest.raises(error, match=path.name):
        table.scan().plan()


def test_a_region_may_be_text(table: Table):
    assert table.scan(region="key=a n=[10,12]").to_arrow()["n"].to_pylist() == [10, 11, 12]


class InBucket:
    """A table's storage, as if it were in a bucket; counts the files that are read."""

    local = False

    def __init__(self, table: Table, cache: FileCache) -> None:
        self._storage, self.cache, self.locate, self.read = table._store.storage, cache, table._store.storage.locate, 0

    def input(self, filename: str) -> Any:
        self.read += 1
        return self._storage.input(filename)


@pytest.mark.parametrize("garbage", [b"garbage", b"", b"PAR1" * 10])
def test_a_cached_footer_that_is_none_is_dropped_and_read_again(table: Table, tmp_path: Path, garbage: bytes):
    cache, checksum = FileCache(tmp_path / "cache", 1_000_000), "a" * 32
    storage: Any = InBucket(table, cache)
    (name, *_) = table.at().state.files.active["filename"].to_pylist()
    groups = funnel.row_groups(name, SCHEMA, storage, checksum)
    assert funnel.row_groups(name, SCHEMA, storage, checksum) == groups
    assert storage.read == 1
    cache.put_part(storage.locate(name), checksum, "footer", garbage)
    for _ in range(2):
        assert funnel.row_groups(name, SCHEMA, storage, checksum) == groups
    assert storage.read == 2
