"""Large local metadata files, of which no checksum of the whole is checked: no damage of a footer is read as rows."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sleeper_nb as sl
from sleeper_nb.errors import StorageError
from sleeper_nb.storage import metadata
from sleeper_nb.storage.filesystem import Storage
from tests.storage.test_metadata_files import references


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "READ_WHOLE_BYTES", -1)


def file_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    metadata.write_with_footer_checksum(rows, sink, write_page_checksum=True)
    return bytes(sink.getvalue())


def is_intact(content: bytes) -> bool:
    with pq.ParquetFile(io.BytesIO(content)) as file:
        return metadata.is_footer_intact(file, lambda size: content[-size:])


@given(
    st.dictionaries(st.text(min_size=1, max_size=40), st.lists(st.integers(-5, 5), min_size=3, max_size=3), min_size=1),
    st.dictionaries(st.text(min_size=1), st.text()),
)
def test_a_file_is_any_readers_and_its_footer_intact(columns, stamps):
    rows = pa.table(columns).replace_schema_metadata(stamps)
    content = file_of(rows)
    assert is_intact(content)
    assert pq.read_table(io.BytesIO(content)).replace_schema_metadata(None) == rows.replace_schema_metadata(None)
    found = pq.read_schema(io.BytesIO(content)).metadata
    assert {key: value for key, value in found.items() if key != metadata.FOOTER_KEY} == {
        key.encode(): value.encode() for key, value in stamps.items()
    }


@pytest.mark.parametrize("text", ["-" * 32, "0" * 32, "sleeper_nb.footer"])
def test_texts_like_a_checksum_are_texts(text):
    """Statistics of a column are in the footer, too."""
    rows = pa.table({text: [text, text]}).replace_schema_metadata({text: text})
    assert is_intact(file_of(rows))
    assert pq.read_table(io.BytesIO(file_of(rows))).to_pydict() == rows.to_pydict()


def test_a_file_without_a_checksum_counts_as_intact():
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink)
    assert is_intact(sink.getvalue())


def test_every_flipped_bit_of_a_footer_is_an_error_or_changes_nothing(tmp_path: Path):
    storage, files = Storage(tmp_path), references(30)
    checksum = metadata.write_files(storage, "files.parquet", files)
    path = tmp_path / "files.parquet"
    good = path.read_bytes()
    start = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    places = random.Random(7).sample(range(8 * start, 8 * len(good)), 600)  # noqa: S311 - the same each run
    refused = 0
    for place in places:
        content = bytearray(good)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        with contextlib.suppress(StorageError):
            refused += 1
            assert metadata.read_files(storage, "files.parquet", checksum).table == files.table, place
            refused -= 1
    assert refused > 590


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
        with pytest.raises(StorageError, match="is damaged: it has the content of") as error:
            session.table("t").scan(version="savepoint.late").to_arrow()
        assert new.name in error.value.message
        assert old.name in error.value.message
        with pytest.raises(StorageError):
            session.table("t").ingest([{"k": 3}])
