"""Export: every row once, as plain files; all of them or none."""

from __future__ import annotations

import base64
import csv
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from tests.support.builders import in_order

SCHEMA = sl.Schema(
    {"k": "string"},
    {"t": "timestamp"},
    {
        "b": "bytearray?",
        "d": "decimal(10,2)?",
        "day": "date?",
        "x": "double?",
        "l": "list<string>?",
        "m": "map<string,int>?",
    },
)  # fmt: skip
MOMENT = datetime(2026, 1, 1, 12, tzinfo=UTC)


def row(key: str, **values: Any) -> dict[str, Any]:
    return {"k": key, "t": MOMENT, **dict.fromkeys(("b", "d", "day", "x", "l", "m")), **values}


ROWS = [
    row("a", b=b"\xff", d=Decimal("-1.50"), day=date(2026, 1, 1), x=0.5, l=["é", None], m=[("k", 1)]),
    row('a,\n"b"'),
    row("z", x=float("inf"), l=[], m=[]),
]


@pytest.fixture
def table(tmp_path: Path):
    with sl.connect(tmp_path / "w", clock=ManualClock()) as session:
        made = session.create_table("t", SCHEMA, ["h", "y"])
        made.ingest(ROWS)
        yield made


def test_each_leaf_with_rows_becomes_one_parquet_file_in_key_order(table, tmp_path: Path):
    done = table.export(tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert [file.address for file in done.files] == [str(path) for path in files]
    assert [(file.region, file.rows) for file in done.files] == [("k (-∞, h)", 2), ("k [y, ∞)", 1)]
    assert pa.concat_tables([pq.read_table(path) for path in files]) == table.scan().to_arrow()
    assert "exported 3 rows to 2 files" in repr(done)


def test_an_older_version_some_columns_and_a_condition(table, tmp_path: Path):
    table.ingest([row("b"), row("zz")])
    table.at(2).export(tmp_path / "old")
    table.export(tmp_path / "some.parquet", columns=["x", "k"], where="k < 'b' or k > 'z'")
    assert pq.read_table(tmp_path / "old").num_rows == 3
    assert pq.read_table(tmp_path / "some.parquet").to_pydict() == {"x": [0.5, None, None], "k": ["a", 'a,\n"b"', "zz"]}
    assert table.scan(limit=1).export(tmp_path / "one.csv").rows == 1


def test_csv_has_every_value_as_text_that_can_be_read_again(table, tmp_path: Path):
    table.export(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as stream:
        found = list(csv.DictReader(stream))
    assert [each["k"] for each in found] == ["a", 'a,\n"b"', "z"]
    assert base64.b64decode(found[0]["b"]) == b"\xff"
    assert (found[0]["d"], found[0]["day"], found[0]["x"]) == ("-1.50", "2026-01-01", "0.5")
    assert json.loads(found[0]["l"]) == ["é", None]
    assert json.loads(found[0]["m"]) == [["k", 1]]
    assert found[1]["l"] == ""


def test_what_was_exported_can_be_ingested_again(table, tmp_path: Path):
    table.export(tmp_path / "out")
    before = in_order(table.scan().to_arrow().to_pylist())
    table.ingest(tmp_path / "out")
    assert in_order(table.scan().to_arrow().to_pylist()) == sorted(before * 2)


def test_a_split_file_gives_each_leaf_its_own_rows(table, tmp_path: Path):
    table.maintenance.split(at="a,")
    done = table.export(tmp_path / "out")
    assert [file.rows for file in done.files] == [1, 1, 1]


def test_an_empty_table_is_an_empty_file_or_no_file(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", SCHEMA)
        assert table.export(tmp_path / "out").files == ()
        assert table.export(tmp_path / "t.parquet").rows == 0
        assert pq.read_table(tmp_path / "t.parquet").schema.names == list(SCHEMA.names)


@pytest.mark.parametrize(
    ("to", "options", "kind", "words"),
    [
        ("there.csv", {}, sl.AlreadyExists, "there.csv already exists"),
        ("folder", {}, sl.AlreadyExists, "folder/x already exists"),
        (
            "new",
            {"file_format": "orc"},
            sl.InvalidInput,
            "file_format is one of 'parquet', 'csv', 'tsv', not the string 'orc'",
        ),
        ("new.csv", {"file_format": "parquet"}, sl.InvalidInput, "ends in .csv is not parquet"),
        ("new", {"columns": ["kk"]}, sl.NotFound, "no column 'kk'"),
        ("new", {"where": "k ="}, sl.InvalidInput, "condition"),
        ("ftp://x/y", {}, sl.InvalidInput, "cannot open"),
    ],
)
def test_what_cannot_be_exported_leaves_nothing(table, tmp_path: Path, to: str, options: Any, kind: type, words: str):
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(kind, match=words):
        table.export(to if "://" in to else tmp_path / to, **options)
    assert [path for path in sorted(tmp_path.rglob("*")) if path.is_file()] == [p for p in before if p.is_file()]
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_an_error_on_the_way_leaves_no_file(table, tmp_path: Path):
    last = table.inspect.files()[-1]["filename"]
    Path(table._store.storage.locate(last)).unlink()
    with pytest.raises(sl.NotFound):
        table.export(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
