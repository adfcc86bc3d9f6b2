"""Text that is not UTF-8 is refused with its row and value; where an older build accepted it, a deep check finds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.load.ingest import ingest_arrow
from sleeper_nb.maintain.check import check_table
from sleeper_nb.progress import Silent
from tests.support.builders import KEYED, a_store, scan
from tests.support.casts import not_utf8

SCHEMA = sl.Schema(
    {"k": "string"}, {}, {"v": "string?", "l": "list<string>?", "m": "map<string,string>?", "d": "list<list<string>>?"}
)
GOOD, BAD = not_utf8(b"ok"), not_utf8(b"\xff")
ONE = pa.array([0, 1], pa.int32())


def listed(inner: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(ONE, inner)


COLUMNS: dict[str, tuple[str, pa.Array]] = {
    "a row key": ("k", BAD),
    "a value": ("v", BAD),
    "a large text": ("v", BAD.cast(pa.large_string())),
    "a view": ("v", BAD.cast(pa.string_view())),
    "a dictionary": ("v", pa.DictionaryArray.from_arrays(pa.array([0]), BAD)),
    "a list": ("l", listed(BAD)),
    "a list of large texts": ("l", listed(BAD.cast(pa.large_string()))),
    "a map's key": ("m", pa.MapArray.from_arrays(ONE, BAD, GOOD)),
    "a map's value": ("m", pa.MapArray.from_arrays(ONE, GOOD, BAD)),
    "a list of lists": ("d", listed(listed(BAD))),
}


def in_memory(rows: pa.Table, _: Path) -> Any:
    return rows


def in_parquet(rows: pa.Table, folder: Path) -> Any:
    pq.write_table(rows, folder / "in.parquet")
    return folder / "in.parquet"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory):
    with sl.connect(tmp_path_factory.mktemp("w")) as session:
        yield session.create_table("t", SCHEMA)


@pytest.mark.parametrize(
    ("name", "place"),
    [(name, in_memory) for name in COLUMNS] + [(name, in_parquet) for name in COLUMNS if name != "a dictionary"],
)
def test_it_is_refused_with_its_row_and_value(
    table: sl.Table, tmp_path: Path, name: str, place: Callable[[pa.Table, Path], Any]
):
    column, bad = COLUMNS[name]
    rows = {"k": GOOD, column: bad}
    before = {**rows, column: pa.nulls(1, bad.type) if column != "k" else GOOD.cast(bad.type)}
    data = place(pa.concat_tables([pa.table(before), pa.table(rows)]), tmp_path)
    with pytest.raises(sl.InvalidInput, match=rf"column '{column}', row 2: the text b'\\xff' is not UTF-8") as error:
        table.ingest(data)
    assert "UTF-8" in (error.value.hint or "")
    assert table.scan().count() == 0


PLAIN = sl.Schema({"k": "string"}, {}, {"v": "string?"})  # Arrow reads JSON of these


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        (SCHEMA, b'{"k":"a","l":["x","\xff"]}\n', r"column 'l', line 1: the text b'\\xff' is not UTF-8"),
        (SCHEMA, b'{"k":"a","m":{"\xff":"x"}}\n', r"column 'm', line 1: the text b'\\xff' is not UTF-8"),
        (SCHEMA, b'{"k":"a","l":["x"],"\xff":1}\n', r"line 1: the name b'\\xff' is not UTF-8"),
        *[
            (schema, text, words)
            for schema in (SCHEMA, PLAIN)
            for text, words in [
                (b'{"k":"a"}\n\n{"k":"b","v":"\xff"}\n', r"column 'v', line 3: the text b'\\xff' is not UTF-8"),
                (b'{"k":"a\xff"}\n', r"column 'k', line 1: the text b'a\\xff' is not UTF-8"),
                (b'[{"k":"a"},\n{"k":"b","v":"\xff"}]', r"column 'v', line 2: the text b'\\xff' is not UTF-8"),
                (b'{"k":"a"}\n{"k":"b","\xff":1}\n', r"line 2: the name b'\\xff' is not UTF-8"),
                (b'{"k":"b","v":"\\ud800"}\n', r"column 'v', line 1: the text '\\ud800' is not UTF-8"),
            ]
        ],
    ],
)
def test_json_is_refused_with_its_line_and_value(
    session: sl.Session, tmp_path: Path, schema: sl.Schema, text: bytes, words: str
):
    (tmp_path / "in.json").write_bytes(text)
    with pytest.raises(sl.InvalidInput, match=words):
        session.create_table("t", schema).ingest(tmp_path / "in.json")


def test_csv_is_refused_with_its_line_and_value(session: sl.Session, tmp_path: Path):
    (tmp_path / "in.csv").write_bytes(b'k,v\na,"x\ny"\nb,\xff\n')
    with pytest.raises(sl.InvalidInput, match=r"column 'v', line 4: the text b'\\xff' is not UTF-8"):
        session.create_table("t", SCHEMA).ingest(tmp_path / "in.csv")


def test_a_column_s_name_is_refused(session: sl.Session):
    rows = pa.Table.from_arrays([GOOD, GOOD], schema=pa.schema([("k", pa.string()), (b"v\xff", pa.string())]))
    with pytest.raises(sl.InvalidInput, match=r"the column name b'v\\xff' is not UTF-8"):
        session.create_table("t", SCHEMA).ingest(rows)


def test_what_a_slice_or_a_null_hides_does_not_count(table: sl.Table):
    hidden = pa.concat_arrays([listed(GOOD), listed(BAD)])
    rows = pa.table({"k": GOOD, "v": pa.concat_arrays([BAD, GOOD]).slice(1), "l": hidden.slice(0, 1)})
    assert table.ingest(rows, dry_run=True).plan.differences == ()


def test_a_deep_check_finds_it_in_any_column(tmp_path: Path):
    store = a_store(tmp_path)
    rows = pa.table({"key": GOOD, "n": pa.array([1], pa.int32()), "value": BAD})
    ingest_arrow(store, rows.cast(KEYED.arrow))  # as older builds did
    with pytest.raises(sl.SleeperError):
        scan(store)
    (finding,) = check_table(store, "table", deep=True, progress=Silent()).findings
    assert "has text that is not UTF-8 in column 'value'" in finding.what
