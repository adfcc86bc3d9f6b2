"""Options of CSV files: each reads what others write, and a wrong one is refused by its name."""

from __future__ import annotations

import bz2
import csv as python_csv
import gzip
import io
import lzma
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import sleeper_nb as sl
from sleeper_nb.load.csv_files import _Records
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.model.csv_format import CsvFormat
from sleeper_nb.storage.filesystem import Storage

SCHEMA = sl.Schema(
    {"k": "int"}, {}, {"name": "string?", "x": "double?", "d": "date?", "at": "timestamp?", "n": "decimal(9,2)?"}
)
EMPTY = dict.fromkeys(SCHEMA.names)


@pytest.fixture
def table(tmp_path: Path):
    with sl.connect(tmp_path / "warehouse") as session:
        yield session.create_table("t", SCHEMA)


def written(tmp_path: Path, text: str | bytes, name: str = "in.csv") -> Path:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


def rows(table: Any, path: Path, **options: Any) -> list[dict[str, Any]]:
    plan = table.ingest(path, dry_run=True, **options).plan
    assert plan.differences == ()
    table.ingest(path, **options)
    got = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["k"])
    assert plan.rows == len(got)
    return [{name: value for name, value in row.items() if value is not None} for row in got]


READ = {
    "quote": ("k,name\n1,'a,b'\n2,'it''s'\n", {"quote": "'"}, ["a,b", "it's"]),
    "no quote": ('k,name\n1,5" disk\n2,"x\n', {"quote": "none"}, ['5" disk', '"x']),
    "escape": ('k,name\n1,"a \\"b\\" c"\n2,"\\\\"\n', {"escape": "\\"}, ['a "b" c', "\\"]),
    "escaped delimiter": ("k,name\n1,a\\,b\n", {"escape": "\\", "quote": "none"}, ["a,b"]),
    "comment": ('#made\nk,name\n#1,x\n1,"a\n#b"\n2,c#d\n', {"comment": "#"}, ["a\n#b", "c#d"]),
    "escaped quotes before a comment": ('k,name\n1,"a\\"\n#b"\n#x\n', {"comment": "#", "escape": "\\"}, ['a"\n#b']),
    "skipped": ('made by x\n"not closed\nk,name\n1,a\n', {"skip_lines": 2}, ["a"]),
    "latin-1": ("k,name\n1,Málaga\n".encode("latin-1"), {"encoding": "latin-1"}, ["Málaga"]),
    "utf-16": ("k,name\n1,Málaga €\n".encode("utf-16"), {"encoding": "utf-16"}, ["Málaga €"]),
    "null texts": ("k,name\n1,NA\n2,\n3,-\n4,x\n", {"null_text": ["", "NA", "-"]}, [None, None, None, "x"]),
    "mark": ("\ufeff#x\nk,name\n1,a\n", {"comment": "#"}, ["a"]),
    "all": ("x\n#y\nk;name\n1;'a;b'\n", {"skip_lines": 1, "comment": "#", "delimiter": ";", "quote": "'"}, ["a;b"]),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_texts_are_read_as_the_options_say(table, tmp_path: Path, case: str):
    text, options, names = READ[case]
    assert [row.get("name") for row in rows(table, written(tmp_path, text), **options)] == names


def test_numbers_with_a_decimal_comma(table, tmp_path: Path):
    path = written(tmp_path, "k;x;n\n1;1,5;-2,25\n2;3;4\n3;;1e2\n")
    assert rows(table, path, delimiter=";", decimal=",") == [
        {"k": 1, "x": 1.5, "n": Decimal("-2.25")}, {"k": 2, "x": 3.0, "n": 4}, {"k": 3, "n": 100},
    ]  # fmt: skip
    wrong = written(tmp_path, "k;x\n1;1,5\n2;1.500,5\n3;1,5,5\n", "wrong.csv")
    (difference,) = table.ingest(wrong, delimiter=";", decimal=",", dry_run=True).plan.differences
    assert difference.count == "2"
    assert difference.problem == "column 'x', line 3: '1.500,5' is not a number with the decimal mark ','"


def test_dates_and_times_in_other_formats(table, tmp_path: Path):
    path = written(tmp_path, "k,d,at\n1,3.1.2026,03/01/26 14:05\n2,,\n3,03.01.2026,03/01/26 14:05\n")
    at = datetime(2026, 1, 3, 14, 5, tzinfo=UTC)
    assert rows(table, path, date_format="%d.%m.%Y", timestamp_format="%d/%m/%y %H:%M") == [
        {"k": 1, "d": date(2026, 1, 3), "at": at}, {"k": 2}, {"k": 3, "d": date(2026, 1, 3), "at": at},
    ]  # fmt: skip


def test_a_time_with_a_zone_or_microseconds_keeps_them(table, tmp_path: Path):
    path = written(tmp_path, "k,at\n1,2026/01/03 14:05:00.000001 +0200\n")
    at = datetime(2026, 1, 3, 12, 5, 0, 1, tzinfo=UTC)
    assert rows(table, path, timestamp_format="%Y/%m/%d %H:%M:%S.%f %z") == [{"k": 1, "at": at}]


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("k,d\n1,30.02.2026\n", {"date_format": "%d.%m.%Y"}, "'d', line 2: '30.02.2026' is not written as %d.%m.%Y"),
        ("k,d\n1,2026-01-01 05\n", {"date_format": "%Y-%m-%d %H"}, "'2026-01-01 05' is not written as"),
        ("k,at\n1,2026-01-01\n2,x\n", {"timestamp_format": "%Y-%m-%d"}, "line 3: 'x' is not written as"),
        ("#c\nk,x\n1,1\n#c\n2,y\n", {"comment": "#"}, "column 'x', line 5: 'y' is not a number"),
        ("a\nb\nk,x\n1,y\n", {"skip_lines": 2}, "column 'x', line 4: 'y' is not a number"),
    ],
)  # fmt: skip
def test_wrong_values_are_shown_with_their_line(table, tmp_path: Path, text: str, options: Any, problem: str):
    (difference,) = table.ingest(written(tmp_path, text), dry_run=True, **options).plan.differences
    assert problem in difference.problem
    with pytest.raises(sl.InvalidInput):
        table.ingest(written(tmp_path, text), **options)


@pytest.mark.parametrize(
    ("text", "options", "hint"),
    [
        ("k,d\n1,2026-02-10 05\n", {}, "say how dates are written: "),
        ("k,d\n1,2026-02-30\n", {}, "February 2026 has 28 days; correct the value"),
        ("k,d\n1,30.02.2026\n", {"date_format": "%d.%m.%Y"}, "write every value as 21.11.2026, or give"),
        ("k,at\n1,x\n", {"timestamp_format": "%d.%m.%Y %H:%M"}, "write every value as 21.11.2026 10:30, or give"),
        (
            "k;x\n1;1.234,5\n",
            {"decimal": ",", "delimiter": ";"},
            "write a decimal comma and no points: 1234,5, or add thousands='.'",
        ),
        ("k;x\n1;1,5,5\n", {"decimal": ",", "delimiter": ";"}, "write a number such as 12 or 1,5, without points"),
    ],
)
def test_hints_say_how_the_format_is_written(table, tmp_path: Path, text: str, options: Any, hint: str):
    (difference,) = table.ingest(written(tmp_path, text), dry_run=True, **options).plan.differences
    assert difference.change.startswith(hint)


def test_one_column_can_have_comments_and_empty_lines(tmp_path: Path):
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {}))
        table.ingest(written(tmp_path, "made\n#a\nk\n1\n#b\n2\n"), comment="#", skip_lines=1)
        assert sorted(table.scan().to_arrow()["k"].to_pylist()) == [1, 2]
        (difference,) = table.ingest(written(tmp_path, "#a\nk\n1\n#b\nx\n"), comment="#", dry_run=True).plan.differences
        assert difference.place == "line 5"


def test_columns_are_named_for_a_file_without_a_header(table, tmp_path: Path):
    path = written(tmp_path, "a,1\nb,2\n")
    assert rows(table, path, header=False, columns=["name", "k"]) == [{"k": 1, "name": "a"}, {"k": 2, "name": "b"}]


COMPRESSED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda text: pa.compress(text, "zstd", asbytes=True),
}
COMPRESSED_TEXTS = {"a.csv": "k,name\n1,x\n", "a.TSV": "k\tname\n1\tx\n", "a.json": '[{"k": 1, "name": "x"}]'}


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("name", COMPRESSED_TEXTS)
def test_compressed_text_is_read(table, tmp_path: Path, compression: str, name: str):
    folder = tmp_path / "in"
    folder.mkdir()
    path = written(folder, COMPRESSED[compression](COMPRESSED_TEXTS[name].encode()), f"{name}.{compression}")
    assert rows(table, folder) == [{"k": 1, "name": "x"}]
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(sl.StorageError, match="cannot read"):
        table.ingest(path)
    assert table.at().resolved.snapshot_id == 2


@pytest.mark.parametrize(("name", "options"), [("a.csv.xz", {}), ("a.csv.xz", {"format": "csv"}), ("a.csv", {})])
def test_a_file_compressed_by_xz_is_refused_as_one(table, tmp_path: Path, name: str, options: Any):
    path = written(tmp_path, lzma.compress(b"k,name\n1,x\n" * 300), name)
    with pytest.raises(sl.InvalidInput, match="is compressed by xz, which cannot be read\nhint: decompress it"):
        table.ingest(path, **options)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_compressed_text_can_have_an_encoding_and_comments(table, tmp_path: Path, compression: str):
    text = COMPRESSED[compression]("made\nk,name\n#x\n1,Málaga\n".encode("latin-1"))
    path = written(tmp_path, text, f"a.csv.{compression}")
    assert rows(table, path, encoding="latin-1", skip_lines=1, comment="#") == [{"k": 1, "name": "Málaga"}]


@pytest.mark.parametrize(
    "wrong",
    [{"delimiter": ",,"}, {"quote": "ab"}, {"quote": "a"}, {"escape": " "}, {"comment": "é"}, {"skip_lines": -1},
     {"encoding": "klingon"}, {"encoding": "hex"}, {"encoding": "punycode"},
     {"encoding": "unicode_escape"}, {"decimal": ";"}, {"date_format": "%d.%m."}, {"date_format": "%Q"},
     {"timestamp_format": "%H:%M"},
     {"timestamp_format": "%d.%m.%Y %I:%M"}, {"timestamp_format": "%d.%m.%Y %H:%M %p"},
     {"timestamp_format": "%d.%m.%Y %p"}, {"date_format": "%d.%m.%Y %I"},
     {"null_text": 'a"b'}, {"null_text": ["a", "b,c"]}, {"skip_lines": True},
     {"escape": '"'}, {"comment": ","}, {"quote": None}, {"date_format": ""}, {"null_text": [1]}],
    ids=str,
)  # fmt: skip
def test_a_wrong_option_is_refused_by_its_name(table, tmp_path: Path, wrong: dict[str, Any]):
    path = written(tmp_path, "k\n1\n")
    with pytest.raises(sl.InvalidInput) as error:
        table.ingest(path, **wrong)
    name = next(iter(wrong))
    assert name in error.value.message or name.replace("_", " ") in error.value.message
    assert table.at().resolved.snapshot_id == 1


def test_a_wrong_encoding_is_an_error_of_the_file(table, tmp_path: Path):
    path = written(tmp_path, "k,name\n1,Málaga\n".encode("latin-1"))
    with pytest.raises(sl.StorageError, match="its text is not utf-16"):
        table.ingest(path, encoding="utf-16")
    with pytest.raises(sl.InvalidInput, match="is not UTF-8") as error:
        table.ingest(path)
    assert error.value.hint.startswith("say its encoding, such as encoding='cp1252' for Western Europe")


def test_options_of_csv_need_a_csv_file(table):
    with pytest.raises(sl.InvalidInput, match="CSV options are given, but no CSV file"):
        table.ingest([{"k": 1}], skip_lines=1)


BARE = "1,x\n2,y\n"


def test_a_table_is_made_of_a_file_without_a_header(tmp_path: Path):
    path = written(tmp_path, BARE)
    with sl.connect(tmp_path / "w") as session:
        options: Any = {"header": False, "columns": ["k", "name"]}
        plan = session.admin.plan_table("t", path, row_keys=["k"], **options)
        made = session.create_table("t", path, row_keys=["k"], types={"name": "string"}, **options)
        assert plan.rows == 2
        assert made.scan().to_arrow().to_pylist() == [{"k": 1, "name": "x"}, {"k": 2, "name": "y"}]
        assert made.ingest(path, header=False).rows == 2
        given = session.create_table("given", sl.Schema({"k": "int"}, values={"n": "string"}), data=path, header=False)
        assert given.scan().count() == 2
        with pytest.raises(sl.InvalidInput, match=r"has no column names\nhint: .* columns=\['c1', 'c2'\]"):
            session.create_table("u", path, row_keys=["k"], header=False)
        with pytest.raises(sl.InvalidInput, match="the data has 2 columns, and 1 are named"):
            session.create_table("u", path, row_keys=["k"], header=False, columns=["k"])


@pytest.mark.parametrize("options", [{}, {"columns": ["k", "name"]}, {"row_keys": ["1"]}])
def test_no_hint_takes_a_first_row_of_values_for_names(tmp_path: Path, options: dict[str, Any]):
    path = written(tmp_path, BARE)
    problem = (
        r"the first line of .*in\.csv may have no column names: '1', 'x'\nhint: if it has values, add header=False"
    )
    with sl.connect(tmp_path / "w") as session:
        for create_table in (session.create_table, session.admin.plan_table):
            with pytest.raises(sl.InvalidInput, match=problem):
                create_table("t", path, **{"row_keys": ["k"], **options})
        table = session.create_table("t", sl.Schema({"k": "int"}, values={"name": "string"}))
        with pytest.raises(sl.InvalidInput, match=problem):
            table.ingest(path, **{name: value for name, value in options.items() if name != "row_keys"})
        assert table.ingest(written(tmp_path, "2013,2014\n1,x\n"), columns={"2013": "k", "2014": "name"}).rows == 1


SURPLUS = 'k,name\n1,"a\nb",\n2,,\n3,c,\n'


def test_a_delimiter_too_many_at_the_end_of_all_lines_is_taken_when_it_is_asked_for(table: Any, tmp_path: Path):
    path = written(tmp_path, SURPLUS)
    expected = [{"k": 1, "name": "a\nb"}, {"k": 2}, {"k": 3, "name": "c"}]
    assert rows(table, path, ignore_extra=True) == expected
    with pytest.raises(
        sl.InvalidInput, match=r"(?s)line 2 has 3 values.*\nhint: if every line ends .* add ignore_extra=True"
    ):
        table.ingest(path)
    with sl.connect(tmp_path / "w") as session:
        made = session.create_table("t", path, row_keys=["k"], ignore_extra=True)
        assert made.scan().to_arrow().to_pylist() == [
            {"k": 1, "name": "a\nb"},
            {"k": 2, "name": None},
            {"k": 3, "name": "c"},
        ]
        bare = written(tmp_path, "\n" + SURPLUS.replace("k,name\n", ""), "bare.csv")
        assert made.ingest(bare, ignore_extra=True, header=False).rows == 3
        named = {"header": False, "columns": ["k", "name"], "row_keys": ["k"], "ignore_extra": True}
        assert session.admin.plan_table("planned", bare, **named).rows == 3
        assert session.create_table("bare", bare, **named).scan().to_arrow().to_pylist() == [
            {"name": None} | each for each in expected
        ]
        lost = written(tmp_path, f"{bare.read_text()}4,d,lost\n", "lost.csv")
        with pytest.raises(sl.InvalidInput, match="line 6 has 3 values, but there are 2 columns"):
            session.create_table("lost", lost, **named)
        with pytest.raises(
            sl.InvalidInput, match=r"(?s)has 3 values, .* 2 columns.*\nhint: if every .* add ignore_extra=True"
        ):
            session.create_table("lost", bare, **{**named, "ignore_extra": False})
        bad = written(tmp_path, "\n\n" + SURPLUS.replace("1,", "x,", 1), "bad.csv")
        kept = made.ingest(bad, ignore_extra=True, quarantine=tmp_path / "q.parquet")
        assert (kept.rows, kept.kept_back) == (2, 1)
        with pytest.raises(
            sl.InvalidInput, match=r"line 6 has 3 values, but .*not empty\nhint: correct the line, or name"
        ):
            made.ingest(written(tmp_path, SURPLUS + "4,d,lost\n"), ignore_extra=True)
        for lines, given in (("1,a,,\n", False), ("1,a\n2,b,\n", True)):  # a hint that was followed, or does not help
            for dry_run in (False, True):
                try:
                    said = str(made.ingest(written(tmp_path, f"k,name\n{lines}"), ignore_extra=given, dry_run=dry_run))
                except sl.InvalidInput as error:
                    said = str(error)
                assert "correct the line" in said
                assert "ignore_extra" not in said
        twice = "k,name,x,x\n4,d,p,q{end}\ny,e,p,q{end}\n"
        for number, end in enumerate(("", ",")):  # names that occur twice are left out too
            doubled, bad = written(tmp_path, twice.format(end=end)), tmp_path / f"twice{number}.parquet"
            kept = made.ingest(doubled, ignore_extra=True, quarantine=bad)
            assert (kept.rows, kept.kept_back) == (1, 1)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-16-be"])
def test_the_hint_names_an_encoding_of_two_or_four_bytes(table, tmp_path, encoding: str):
    path = written(tmp_path, "k,name\n1,5 €\n".encode(encoding))
    with pytest.raises(sl.StorageError, match=f"say its encoding, such as encoding='{encoding}'"):
        table.ingest(path)
    assert rows(table, path, encoding=encoding) == [{"k": 1, "name": "5 €"}]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_line_of_too_many_values_that_is_not_utf_8_is_named_at_create(tmp_path: Path):
    path = written(tmp_path, "k,v\n1,é\n2,é,x\n".encode("latin-1"))
    said = r"Expected 2 columns, got 3: 2,.*\nhint: correct the line; .*encoding='cp1252'"
    with sl.connect(tmp_path / "w") as session, pytest.raises(sl.StorageError, match=said):
        session.create_table("t", path, row_keys=["k"])


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("Málaga – 5 €", "cp1252"), ("日本の", "shift_jis"), ("中文测试", "gb18030"), ("Москва", "cp1251")],
)
def test_the_hint_names_the_encodings_of_several_scripts(table, tmp_path, text: str, encoding: str):
    path = written(tmp_path, f"k,name\n1,{text}\n".encode(encoding))
    said = "cp1252' for Western Europe, cp1251 for Cyrillic, shift_jis for Japanese or gb18030 for Chinese"
    with pytest.raises(sl.SleeperError) as refused:
        table.ingest(path)
    assert said in str(refused.value)
    assert rows(table, path, encoding=encoding) == [{"k": 1, "name": text}]


def as_parquet(text: bytes) -> bytes:
    sink = io.BytesIO()
    pq.write_table(csv.read_csv(io.BytesIO(text)), sink)
    return sink.getvalue()


@pytest.mark.parametrize("ending", ["csv", "json"])
@pytest.mark.parametrize(
    ("pack", "what", "option"),
    [
        (gzip.compress, "compressed by gzip", ""),
        (bz2.compress, "compressed by bz2", ""),
        (lambda text: pa.compress(text, "zstd", asbytes=True), "compressed by zstd", ""),
        (as_parquet, "Parquet", "parquet"),
    ],
)
def test_a_file_whose_name_does_not_say_its_format_is_refused_with_the_option(
    table, tmp_path, ending: str, pack: Any, what: str, option: str
):
    text = b"k,name\n1,a\n" if ending == "csv" or option else b'{"k": 1, "name": "a"}\n'
    path = written(tmp_path, pack(text), f"a.{ending}")
    option = option or ending
    said = (
        rf"a\.{ending} is {what}, and its name does not say so\nhint: rename it to end in .*, or add format='{option}'"
    )
    (tmp_path / "d").mkdir()
    shutil.copy(path, tmp_path / "d")
    with sl.connect(tmp_path / "other") as session:
        loads = [partial(table.ingest, path), partial(table.ingest, tmp_path / "d"), partial(table.bulk_import, path),
                 partial(table.ingest, path, dry_run=True), partial(table.upsert, path),
                 partial(session.create_table, "n", path, row_keys=["k"])]  # fmt: skip
        for load in loads:
            with pytest.raises(sl.InvalidInput, match=said):
                load()
        with pytest.raises(sl.InvalidInput, match=f"is {what}.*\nhint: rename it to end in [^,]*$"):
            session.sql(f"SELECT * FROM '{path}'", engine="duckdb").to_arrow()
    assert rows(table, path, format=option) == [{"k": 1, "name": "a"}]


def test_a_name_that_begins_as_another_format_is_a_name(table, tmp_path: Path):
    path = written(tmp_path, "PAR1,k\na,1\n")
    assert rows(table, path, columns={"PAR1": "name"}) == [{"k": 1, "name": "a"}]


GROUPED = {
    ".": ("1.234.567", "-1.234,5", "12"), ",": ("1,234,567", "-1,234.5", "12"), "'": ("1'234'567", "-1'234.5", "12"),
    "space": ("1 234\u202f567", "-1\u00a0234.5", "12"), "_": ("1_234_567", "-1_234.5", "12"),
}  # fmt: skip


@pytest.mark.parametrize("mark", GROUPED)
def test_thousands_may_be_separated_and_a_dry_run_says_so(table: Any, tmp_path: Path, mark: str):
    lines = "".join(f"{k};{text}\n" for k, text in enumerate(GROUPED[mark]))
    path = written(tmp_path, f"k;x\n{lines}")
    options: Any = {"delimiter": ";", "thousands": mark}
    numbers = [1_234_567.0, -1234.5, 12.0]
    assert [row["x"] for row in rows(table, path, **options)] == numbers
    with sl.connect(tmp_path / "w") as session:
        plan = session.admin.plan_table("t", path, row_keys=["k"], delimiter=";")
        assert f"x is read as text, although its values look like numbers, such as {GROUPED[mark][0]!r}" in repr(plan)
        assert f"thousands={mark!r}" in repr(plan)
        made = session.create_table("t", path, row_keys=["k"], **options)
        assert made.scan().to_arrow().sort_by("k")["x"].to_pylist() == numbers


def test_numbers_that_are_not_grouped_by_three_are_refused(table: Any, tmp_path: Path):
    for text, mark in (("12.34", "."), ("0.123", "."), ("1,23,456", ","), ("1.234,5.6", "."), ("1 23", "space")):
        path = written(tmp_path, f"k;x\n1;{text}\n")
        with pytest.raises(sl.InvalidInput, match="column 'x'"):
            table.ingest(path, delimiter=";", thousands=mark)
    with pytest.raises(sl.InvalidInput, match=r"add thousands='\.'"):
        table.ingest(written(tmp_path, "k;x\n1;1.234.567\n"), delimiter=";")
    path = written(tmp_path, "k;x\n1;12,34\n")
    with pytest.raises(sl.InvalidInput, match="'12,34' is not a number") as caught:
        table.ingest(path, delimiter=";", thousands=",")
    assert "decimal=" not in caught.value.hint  # the two options exclude each other
    with pytest.raises(sl.InvalidInput, match="cannot be both decimal mark and thousands separator"):
        table.ingest(path, delimiter=";", thousands=",", decimal=",")


def test_the_limit_of_python_s_csv_module_is_given_back(tmp_path: Path):
    (tmp_path / "x.csv").write_text('k,x\n1,a\n2,"' + "b" * 200_000 + '"\n3,c,d\n')
    limit = python_csv.field_size_limit()
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"x": "string"}))
        with pytest.raises(sl.InvalidInput, match="line 4 has 3 values"):
            table.ingest(tmp_path / "x.csv")
    assert python_csv.field_size_limit() == limit


def test_one_of_two_threads_that_has_read_its_file_leaves_the_other_the_larger_limit(tmp_path: Path):
    path, limit = written(tmp_path, "k,name\n1,a\n"), python_csv.field_size_limit()
    first, second = (_Records(SourceFile(Storage(tmp_path), path.name, 11), CsvFormat()) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert python_csv.field_size_limit() > limit
    second.__exit__()
    assert python_csv.field_size_limit() == limit
