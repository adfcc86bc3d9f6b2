from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError, StorageError
from sleeper_nb.load import source_files, sources
from sleeper_nb.load.source_files import find_files, hidden_note
from sleeper_nb.model.schema import Schema
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.filesystem import Storage
from tests.support.builders import a_store, ingest, on_disk, rows_of, scan

SCHEMA = Schema({"k": "string", "n": "int"}, {"t": "timestamp"}, {"v": "double?", "d": "date?"})
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW = {"k": "2026-01-01", "n": 1, "t": NOON, "v": 1.5, "d": date(2026, 1, 2)}
ROWS = [ROW, {"k": "é", "n": -(2**31), "t": NOON, "v": None, "d": None}]
CSV = "k,n,t,v,d\n2026-01-01,1,2026-01-01 12:00:00,1.5,2026-01-02\né,-2147483648,2026-01-01 12:00:00,,\n"
JSON = (
    '{"k": "2026-01-01", "n": 1, "t": "2026-01-01 12:00:00", "v": 1.5, "d": "2026-01-02"}\n'
    '{"k": "é", "n": -2147483648, "t": "2026-01-01T12:00:00.000Z", "v": null}\n'
)


def taken(data: Any, schema: Schema = SCHEMA) -> list[dict[str, Any]]:
    table = sources.read_sources(sources.find_sources(data), schema).rows
    assert table.schema == schema.arrow
    return table.to_pylist()


def arrow() -> pa.Table:
    return pa.Table.from_pylist(ROWS, schema=SCHEMA.arrow)


@pytest.mark.parametrize(
    "given",
    [
        lambda: ROWS,
        arrow,
        lambda: arrow().to_batches()[0],
        lambda: arrow().to_reader(),
        lambda: arrow().to_pandas(),
        lambda: pl.from_arrow(arrow()),
        lambda: duckdb.arrow(arrow()),
        lambda: pl.from_arrow(arrow()).lazy().filter(pl.col("n") < 5),
        lambda: dataset.dataset(arrow()),
        lambda: dataset.dataset(arrow()).scanner(filter=dataset.field("n") < 5),
        lambda: [arrow().slice(0, 1), arrow().slice(1).to_pandas()],
        lambda: (arrow(), []),
        lambda: arrow().select(["d", "v", "t", "n", "k"]),
        lambda: arrow().set_column(2, "t", arrow()["t"].cast(pa.timestamp("ns", tz="Asia/Tokyo"))),
        lambda: arrow().to_pandas().astype({"k": "category"}),
        lambda: pl.from_arrow(arrow()).with_columns(pl.col("k").cast(pl.Categorical)),
    ],
    ids=[
        "rows", "table", "batch", "reader", "pandas", "polars", "duckdb", "lazy", "dataset", "scanner", "list", "tuple",
        "other order", "other zone",
        "pandas categories", "polars categories",
    ],
)  # fmt: skip
def test_every_kind_of_data_gives_the_same_rows(given: Callable[[], Any]):
    assert taken(given()) == ROWS


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "json", "jsonl"])
def test_every_kind_of_file_gives_the_same_rows_by_path_folder_and_glob(tmp_path: Path, ending: str):
    folder = tmp_path / "a [folder]"
    folder.mkdir()
    path = folder / f"data.{ending}"
    if ending == "parquet":
        pq.write_table(arrow(), path)
    else:
        content = (CSV if "csv" in ending else JSON).encode()
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    (folder / "_SUCCESS").write_text("")
    assert taken(path) == taken(str(path)) == taken(folder) == taken(tmp_path / "*" / "d?ta.*") == ROWS


def test_files_of_a_glob_follow_each_other_by_name_and_may_lack_nullable_columns(tmp_path: Path):
    (tmp_path / "b.csv").write_text("k,n,t\nb,1,2026-01-01T12:00:00Z\n")
    (tmp_path / "a.csv").write_text("k,n,t,v\na,1,2026-01-01T13:00:00+01:00,2\n")
    assert [(row["k"], row["t"], row["v"]) for row in taken(tmp_path / "*.csv")] == [
        ("a", NOON, 2.0),
        ("b", NOON, None),
    ]
    assert [file.path for file in find_files(tmp_path)] == ["a.csv", "b.csv"]


def test_nothing_to_take_over_is_no_rows():
    assert taken([]) == taken(arrow().slice(0, 0)) == []


def test_nested_values_and_decimals_are_taken_over():
    schema = Schema(
        {"k": "int"}, {}, {"m": "map<string,long>", "l": "list<int>?", "d": "decimal(5,2)", "b": "bytearray?"}
    )
    row = {"k": 1, "m": [("a", 1)], "l": [1, None], "d": Decimal("1.25"), "b": b"\x80"}
    assert taken([row, {**row, "m": {"a": 1}}], schema) == [row, row]


def test_names_that_are_no_texts_mean_their_texts():
    schema = Schema({"k": "int"}, {}, {"v": "int?"})
    name = PurePosixPath("v")
    assert (
        taken([{"k": 1, name: 2}], schema) == taken(pd.DataFrame({"k": [1], name: [2]}), schema) == [{"k": 1, "v": 2}]
    )
    with pytest.raises(InvalidInput, match="'v' occurs twice"):
        taken([{"k": 1, name: 2, "v": 3}], schema)


def test_a_relation_that_has_a_name_twice_is_refused():
    with duckdb.connect() as connection, pytest.raises(InvalidInput, match="'k' occurs twice"):
        taken(connection.sql("select 1 as k, 2 as k"), Schema({"k": "int"}))


def without(name: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in ROW.items() if k != name}]


REFUSED = {
    "missing column": (without("n"), "missing column 'n'"),
    "unknown column": ([{**ROW, "w": 1}], "unknown column 'w'"),
    "no text for a name": ([{**ROW, 5: 1}], "unknown column '5'"),
    "column twice": (pa.table([[1], [2]], names=["k", "k"]), "twice"),
    "pandas column twice": (pd.DataFrame([[1, 2]], columns=["k", "k"]), "'k' occurs twice"),
    "null key": ([{**ROW, "k": None}], "'k' has 1 null"),
    "null keys": ([{**ROW, "t": None}] * 2, "'t' has 2 nulls"),
    "wrong type": ([{**ROW, "n": "x"}], "'n'"),
    "number for a string": ([{**ROW, "k": 1}], "'k'"),
    "number for a moment": (pa.table({**{k: [v] for k, v in ROW.items()}, "t": [5]}), "'t'"),
    "overflow": ([{**ROW, "n": 2**31}], "'n'"),
    "overflow of a cast": (pd.DataFrame([{**ROW, "n": 2**31}]), "'n'"),
    "huge": ([{**ROW, "n": 10**30}], "'n'"),
    "fraction": ([ROW, {**ROW, "n": 1.5}], "column 'n', row 2: 1.5 .*int without loss"),
    "fraction of a cast": (pd.DataFrame([{**ROW, "n": 1.5}]), "'n'"),
    "time in a date": ([{**ROW, "d": NOON}], "column 'd', row 1: 2026-01-01 12:00:00.*date without loss"),
    "time in a date of a cast": (pd.DataFrame([{**ROW, "d": pd.Timestamp(NOON)}]), "'d'"),
    "half a character": ([{**ROW, "k": "\ud800"}], "'k'"),
    "not UTF-8": ([{**ROW, "k": b"\xff"}], "'k'"),
    "bytes that are no text": (pa.table({**{k: [v] for k, v in ROW.items()}, "k": [b"\xff"]}), "'k'"),
    "mixed pandas column": (
        pd.DataFrame({**{k: [v, v] for k, v in ROW.items()}, "k": ["a", 1]}),
        "column 'k', row 2: 1 .*string without loss",
    ),
    "series": (pd.Series([1]), "cannot ingest"),
    "a number": (5, "cannot ingest"),
    "a list of tuples": ([("a", 1)], "cannot ingest"),
    "a generator": ((row for row in ROWS), "cannot ingest"),
}


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED)
def test_data_that_does_not_fit_is_refused_whole(tmp_path: Path, data: Any, words: str):
    store = a_store(tmp_path, SCHEMA, ["m"])
    before = on_disk(store)
    with pytest.raises(InvalidInput, match=words) as error:
        ingest(store, data)
    assert error.value.hint
    assert (store.head().id, on_disk(store)) == (1, before)


@pytest.mark.parametrize(("value", "kind"), [(5, "boolean"), (1e300, "float"), (2**53 + 1, "double"), (1.5, "long")])
def test_no_cast_loses_anything(value: Any, kind: str):
    with pytest.raises(InvalidInput):
        taken(pa.table({"k": [1], "x": [value]}), Schema({"k": "int"}, {}, {"x": kind}))


@pytest.mark.parametrize(
    ("value", "kind"), [(1, "boolean"), (0.5, "float"), (float("inf"), "float"), (2**40, "double")]
)
def test_casts_that_lose_nothing_are_made(value: Any, kind: str):
    assert taken(pa.table({"k": [1], "x": [value]}), Schema({"k": "int"}, {}, {"x": kind})) == [{"k": 1, "x": value}]


FILES = {
    "truncated.parquet": "parquet",
    "no.parquet": b"no parquet",
    "empty.parquet": b"",
    "cell.csv": b"k,n,t\na,x,2026-01-01 12:00:00\n",
    "overflow.csv": b"k,n,t\na,3000000000,2026-01-01 12:00:00\n",
    "ragged.csv": b"k,n,t\na,1\n",
    "null.csv": b"k,n,t\na,,2026-01-01 12:00:00\n",
    "empty.csv": b"",
    "cut.csv.gz": gzip.compress(CSV.encode())[:20],
    "broken.json": b'{"k": ',
    "wrong.json": b'{"k": 5, "n": 1, "t": "2026-01-01 12:00:00"}',
    "missing.jsonl": b'{"k": "a", "t": "2026-01-01 12:00:00"}',
    "other.txt": b"text",
}


@pytest.mark.parametrize("name", FILES)
def test_one_bad_file_among_good_ones_leaves_nothing(tmp_path: Path, name: str):
    store = a_store(tmp_path / "warehouse", SCHEMA)
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a.csv").write_text(CSV)
    bad = FILES[name]
    if bad == "parquet":
        pq.write_table(arrow(), folder / name)
        whole = (folder / name).read_bytes()
        bad = whole[: len(whole) // 2]
    (folder / name).write_bytes(bad)
    before = on_disk(store)
    with pytest.raises(SleeperError) as error:
        ingest(store, folder / "*")
    assert error.value.hint
    assert (store.head().id, on_disk(store)) == (1, before)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "k,n,t\na,x,2026-01-01\n", "column 'n', line 2: 'x'"),
        ("a.csv", "t,n,k\n2026-01-01,1.5,a\n", "column 'n', line 2: '1.5'"),
        ("a.csv", "t,n,k\nnoon,1,a\n", "column 't'.*noon"),
        ("a.csv", "t,n,k,d\n2026-01-01,1,a,soon\n", "column 'd'.*soon"),
        ("a.json", '{"k": "a", "n": "x", "t": "2026-01-01"}', "column 'n', line 1: 'x'"),
        ("a.json", '{"k": "a", "n": 1.5, "t": "2026-01-01"}', "column 'n'.*1.5"),
        ("a.json", '{"k": "a", "n": 1, "t": "2026-01-01", "d": "soon"}', "column 'd'.*soon"),
    ],
)
def test_a_value_of_a_wrong_type_in_a_whole_file_is_wrong_input(tmp_path: Path, name: str, text: str, words: str):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=words) as error:
        taken(tmp_path / name)
    assert "may be truncated" not in error.value.hint


def test_each_file_is_compared_with_the_table_by_itself_and_named(tmp_path: Path):
    pq.write_table(arrow(), tmp_path / "a.parquet")
    pq.write_table(arrow().drop_columns(["n"]), tmp_path / "b.parquet")
    with pytest.raises(InvalidInput, match=r"missing column 'n', in .*b.parquet"):
        taken(tmp_path)


@pytest.mark.parametrize("source", ["none.csv", "*.none", "no folder/*", "nor [this"])
def test_a_path_or_glob_without_a_file_says_so(tmp_path: Path, source: str):
    with pytest.raises(NotFound, match="no data file"):
        taken(tmp_path / source)


def test_a_folder_of_another_format_than_its_name_says_is_refused(tmp_path: Path):
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(SleeperError):
        taken(tmp_path / "x.csv")


def test_a_table_takes_over_what_it_gave(store: StateStore):
    ingest(store, rows_of("b", "a"))
    ingest(store, scan(store))
    assert scan(store)["key"].to_pylist() == ["a", "a", "b", "b"]


def test_a_link_to_no_file_is_named(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(StorageError, match=r"a\.csv': it is a link to a file that does not exist"):
        find_files(tmp_path)


def test_a_file_that_is_gone_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.csv").symlink_to(tmp_path / "nowhere.csv")
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)  # as a file that was deleted after it was listed
    with pytest.raises(NotFound, match=r"data file '.*a\.csv' does not exist any more"):
        find_files(tmp_path)


HIDDEN = "1 file left out, as its name or folder begins with . or _"


@pytest.fixture
def beside_hidden(tmp_path: Path) -> Path:
    """A folder with one row in a file, and others in files of tools."""
    folder = tmp_path / ".home" / "_mine" / "d1"
    (folder / ".ipynb_checkpoints").mkdir(parents=True)
    (folder / "data.csv").write_text("k,v\na,1\n")
    (folder / ".ipynb_checkpoints" / "data-checkpoint.csv").write_text("k,v\nb,1\n")
    return folder


@pytest.mark.parametrize("ending", ["", "/**/*.csv", "/../*"])
def test_hidden_files_are_left_out_and_counted_by_every_load(tmp_path: Path, beside_hidden: Path, ending: str):
    data = f"{beside_hidden}{ending}"
    with sl.connect(tmp_path / "w") as session:
        made = session.create_table("made", data, row_keys=["k"])
        assert ([row["k"] for row in made.scan().to_arrow().to_pylist()], repr(made).count(HIDDEN)) == (["a"], 1)
        assert repr(session.admin.plan_table("other", data, row_keys=["k"])).count(HIDDEN) == 1
        assert repr(session.admin.plan_table("other", data)).count(HIDDEN) == 1
        loads = [made.ingest, made.bulk_import, made.upsert, partial(made.ingest, quarantine=tmp_path / "q.parquet")]
        for load in loads:
            assert repr(load(data, dry_run=True)).count(HIDDEN) == 1
            assert repr(load(data)).count(HIDDEN) == 1
        assert repr(made.merge(data, on=["k"]).when_matched_delete().execute()).count(HIDDEN) == 1
        assert made.scan().to_arrow().to_pylist() == []


def test_a_hidden_file_that_is_named_is_read_and_one_alone_in_a_folder_is_said(beside_hidden: Path):
    hidden = beside_hidden / ".ipynb_checkpoints"
    (beside_hidden / "_year=2026").mkdir()
    (beside_hidden / "_year=2026" / "c.csv").write_text("k\nc\n")
    found = [find_files(f"{beside_hidden}/{each}") for each in (
        ".ipynb_checkpoints", ".ipynb_checkpoints/data-checkpoint.csv", ".ipynb*/*", "_*/*")]  # fmt: skip
    assert [[file.path for file in each] for each in found[:3]] == [["data-checkpoint.csv"]] * 3
    assert [[value.name for value in file.folder_values] for file in found[3]] == [["_year"]]
    hidden.rename(beside_hidden / "_tmp")
    (beside_hidden / "data.csv").unlink()
    (beside_hidden / "_year=2026" / "c.csv").unlink()
    with pytest.raises(NotFound) as refused:
        find_files(beside_hidden)
    assert refused.value.hint == f"{HIDDEN}; to load a hidden file, give its name"


LAKES = {
    "Delta": ["_delta_log/00000000000000000000.json"],
    "Iceberg": ["metadata/v1.metadata.json"],
    "Hudi": [".hoodie/hoodie.properties"],
    "Paimon": ["snapshot/LATEST", "schema/schema-0", "manifest/manifest-0"],
    "DuckLake": ["ducklake-0198a5b1-7d3c-7b0e-9d1c-1f2e3d4c5b6a.parquet"],
}


@pytest.mark.parametrize("kind", LAKES)
def test_folders_and_globs_in_tables_of_lake_formats_are_refused_by_name(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    table = tmp_path / "lake" / "t"
    for name in (*LAKES[kind], "p=1/a.parquet"):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"k": ["a"]}), table / name)
    if kind == "DuckLake":
        (table / "p=1" / "a.parquet").unlink()
    inside = table if kind == "DuckLake" else table / "p=1"
    for named in (table, inside, tmp_path / "lake", tmp_path / "*", table / "**" / "*.parquet", inside / "*.parquet"):
        with pytest.raises(InvalidInput, match=rf"lake/t is a {kind} table") as refused:
            find_files(named)
        assert refused.value.hint is not None
        assert (f"{kind.lower()}:{table}" in refused.value.hint) == (kind in {"Delta", "Iceberg"})
    alone = next(inside.glob("*.parquet"))
    assert [file.path for file in find_files(alone)] == [alone.name]
    key = alone.relative_to(tmp_path).as_posix()
    monkeypatch.setattr(source_files, "open_near", lambda *_: Storage(tmp_path))  # it lists as a bucket does
    prefix = key.rpartition("/")[0]
    for named in ("lake/t/", prefix, "lake", "", "lake/**/*.parquet", f"{prefix}/*"):
        with pytest.raises(InvalidInput, match=rf"{tmp_path}/lake/t is a {kind} table"):
            find_files(f"s3://bucket/{named}")
    assert [file.path for file in find_files(f"s3://bucket/{key}")] == [key]


def test_hidden_objects_of_a_bucket_are_left_out(tmp_path: Path, beside_hidden: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source_files, "open_near", lambda *_: Storage(tmp_path))  # it lists as a bucket does
    for named in ("d1", "d1/**/*.csv", "*/**/*.csv"):
        found = find_files(f"s3://bucket/.home/_mine/{named}")
        assert ([file.path for file in found], hidden_note(found)) == ([".home/_mine/d1/data.csv"], HIDDEN)
    assert len(find_files("s3://bucket/.home/_mine/d1/.*/*")) == 1


def test_folders_that_only_have_such_names_are_read(tmp_path: Path):
    for name in ("metadata/notes.json", "schema/x.csv", "snapshot/x.csv", "data/a.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("k\na\n")
    assert [file.path for file in find_files(tmp_path / "data")] == ["a.csv"]


TEXT = b"k;v\n1,5;a\n2,5;b\n"


def zipped(**files: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        for name, content in files.items():
            opened.writestr(name.replace("__", "."), content)
    return packed.getvalue()


def parquet_bytes() -> bytes:
    packed = io.BytesIO()
    pq.write_table(pa.table({"k": ["1,5", "2,5"], "v": ["a", "b"]}), packed)
    return packed.getvalue()


def test_a_damaged_or_encrypted_zip_file_is_an_error_that_names_it(tmp_path: Path):
    whole = zipped(a__csv=TEXT)
    damaged, encrypted = bytearray(whole), bytearray(whole)
    damaged[whole.index(TEXT)] ^= 1
    encrypted[6] = encrypted[whole.index(b"PK\1\2") + 8] = 1
    for content, said in ((damaged, "Bad CRC-32 for file"), (encrypted, "is encrypted")):
        (tmp_path / "a.zip").write_bytes(content)
        with sl.connect(tmp_path / "w") as session, pytest.raises(sl.SleeperError, match=f"a.zip: .*{said}"):
            session.create_table("t", tmp_path / "a.zip", row_keys=["k"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", TEXT),
        ("a.dat", TEXT.replace(b";", b"\t")),
        ("a.psv", TEXT.replace(b";", b"|")),
        ("part-00000", TEXT),
        ("part-00000-1", gzip.compress(TEXT)),
        ("a.zip", zipped(a__csv=TEXT, _MACOSX__x=b"")),
        ("part-00000.snappy", parquet_bytes()),
        ("a.log", b'{"k": "1,5", "v": "a"}\n{"k": "2,5", "v": "b"}\n'),
        ("a.dump", b'\xef\xbb\xbf [{"k": "1,5", "v": "a"}, {"k": "2,5", "v": "b"}]'),
        ("a.utf16", TEXT.decode().encode("utf-16")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_of_any_name_are_read_by_their_content(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    options: Any = {"encoding": "utf-16"} if name == "a.utf16" else {}
    with sl.connect(tmp_path / "w") as session:
        made = session.create_table("t", tmp_path / name, row_keys=["k"], **options)
        assert made.ingest(f"{tmp_path}/{name[:2]}*", **options).rows == 2
        assert made.scan().to_arrow().sort_by("k").to_pylist() == [
            {"k": k, "v": v} for k, v in (("1,5", "a"), ("1,5", "a"), ("2,5", "b"), ("2,5", "b"))
        ]


def test_one_option_says_the_format_of_all_files_of_a_folder(tmp_path: Path):
    folder = tmp_path / "d"
    folder.mkdir()
    for name in ("part-00000", "part-00001.txt", "c.json"):
        (folder / name).write_text("k\n1\n")
    (folder / "_SUCCESS").write_text("")
    with sl.connect(tmp_path / "w") as session:
        made = session.create_table("t", folder / "part-00000", row_keys=["k"])
        (folder / "c.json").unlink()
        with pytest.raises(NotFound, match=r"2 files with other endings .*: to load them, add .*format='csv'"):
            made.ingest(folder)
        assert made.ingest(folder, format="csv").rows == 2
        assert session.create_table("tabs", folder, row_keys=["k"], format="tsv").schema.names == ("k",)
        with pytest.raises(InvalidInput, match=r"format is one of 'csv', .* not the string 'xml'"):
            made.ingest(folder, format="xml")
        with pytest.raises(InvalidInput, match="a format is given, but no file"):
            made.ingest([{"k": 1}], format="csv")


def test_a_file_of_no_known_format_is_refused(tmp_path: Path):
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")
    (tmp_path / "two.zip").write_bytes(zipped(a__csv=TEXT, b__csv=TEXT))
    for name, problem in (
        ("a.bin", "the format of .*a.bin is not recognised\nhint: say its format, such as format='csv'"),
        ("two.zip", "two.zip does not have one file of CSV or JSON in it, but a.csv, b.csv"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            sources.find_sources(tmp_path / name)
