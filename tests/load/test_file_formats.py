"""CSV and JSON: an export is read as the same values, a file means what it says, and what is wrong is named by line."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import SleeperError
from sleeper_nb.load import csv_files, csv_text, json_files, sources
from tests.support.casts import same

NAN, INF = float("nan"), float("inf")
VALUES: dict[str, tuple[str, list[Any]]] = {
    "text": ("string", [None, "", "NULL", "NA", "null", "nan", " a ", 'a,"b"', '"', "a\nb", "a\r\nb", "\r", "é\t;|",
                        "\0", "\\", "'", "0x10", "\ufeff", "\x1f"]),
    "raw": ("bytearray", [None, b"", b"a", b"\xff\x00", b"NA"]),
    "whole": ("int", [None, 0, -(2**31), 2**31 - 1]),
    "wide": ("long", [None, 0, -(2**63), 2**63 - 1, 2**53 + 1]),
    "x": ("double", [None, NAN, INF, -INF, 0.1, -0.0, 1e300, 5e-324, 2.0**63, 1 / 3]),
    "y": ("float", [None, NAN, INF, -INF, 0.5, 0.10000000149011612, 1.401298464324817e-45, 3.4028234663852886e38]),
    "money": ("decimal(38,10)", [None, Decimal("0E-10"), Decimal("1.2390000000"),
                                 Decimal("-9007199254740993.0000000001"),
                                 Decimal("0.0000000001"), Decimal("9999999999999999999999999999.9999999999")]),
    "yes": ("boolean", [None, True, False]),
    "day": ("date", [None, date(1, 1, 1), date(9999, 12, 31), date(2026, 2, 28)]),
    "at": ("timestamp", [None, datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 2, 3, 4, UTC),
                         datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]),
    "texts": ("list<string>", [None, [], [None], ["", "NULL", 'a,"\n']]),
    "raws": ("list<bytearray>", [None, [b"", b"\xff", None]]),
    "xs": ("list<double>", [None, [NAN, INF, -INF, 0.1, None, 1e22, 2.0**53]]),
    "ys": ("list<float>", [None, [0.10000000149011612, NAN, None]]),
    "moneys": ("list<decimal(20,3)>", [None, [Decimal("9007199254740993.001"), None]]),
    "days": ("list<date>", [None, [date(1, 1, 1), None, date(9999, 12, 31)]]),
    "moments": ("list<timestamp>", [None, [datetime(2026, 1, 1, 1, 2, 3, 4, UTC), None]]),
    "map": ("map<string,double>", [None, [], [("", NAN), ('a,"', None)]]),
    "by_day": ("map<date,list<long>>", [None, [(date(2026, 1, 1), [2**63 - 1, None])]]),
}  # fmt: skip
SCHEMA = sl.Schema({"k": "int"}, {}, {name: f"{kind}?" for name, (kind, _) in VALUES.items()})
ROWS = [
    {"k": i, **{name: values[i] if i < len(values) else None for name, (_, values) in VALUES.items()}}
    for i in range(max(len(values) for _, values in VALUES.values()))
]
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "csv": ("out.csv", {}),
    "tsv": ("out.tsv", {}),
    "upper case": ("OUT.CSV", {}),
    "semicolons and NA": ("out.csv", {"delimiter": ";", "null_text": "NA"}),
    "no header": ("out.csv", {"header": False}),
    "tab": ("out.csv", {"delimiter": "tab", "null_text": "\\N"}),
    "a number means NULL": ("out.csv", {"null_text": "-999"}),
    "parquet": ("OUT.Parquet", {}),
    **{f"delimiter {each}": ("out.csv", {"delimiter": each}) for each in ".-: 1en[+Z"},
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory):
    with sl.connect(tmp_path_factory.mktemp("w")) as opened:
        opened.create_table("given", SCHEMA).ingest(ROWS)
        yield opened


@pytest.mark.parametrize("form", FORMS)
def test_an_export_is_read_as_the_same_values_of_every_type(session: sl.Session, tmp_path: Path, form: str):
    name, options = FORMS[form]
    session.table("given").export(tmp_path / name, **options)
    for wrote, got in zip(ROWS, read(tmp_path / name, SCHEMA, **options), strict=True):
        for column in SCHEMA.names:
            assert same(got[column], wrote[column]), (column, got[column], wrote[column])


def test_an_exported_table_is_ingested_again_by_its_options(session: sl.Session, tmp_path: Path):
    session.table("given").export(tmp_path / "part", "csv", delimiter="|", null_text="NA", header=False)
    (path,) = (tmp_path / "part").iterdir()
    made = session.create_table("again", SCHEMA).ingest(path, delimiter="|", null_text="NA", header=False)
    assert made.rows == len(ROWS)
    found = session.table("again").scan().to_arrow().to_pylist()
    assert all(same(a[name], b[name]) for a, b in zip(found, ROWS, strict=True) for name in SCHEMA.names)


@pytest.mark.parametrize(("null", "name"), [("0", "whole"), ("true", "yes"), ("2026-02-28", "day"), ("[]", "texts")])
def test_a_value_that_would_be_read_as_null_is_refused(session: sl.Session, tmp_path: Path, null: str, name: str):
    with pytest.raises(sl.InvalidInput, match=f"column '{name}' has the value .*which is also the text for NULL"):
        session.table("given").scan(["k", name], "k > 0").export(tmp_path / "out.csv", null_text=null)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "number"),
    [("date", 2932897), ("date", -719163), ("timestamp", 253402300800000000), ("timestamp", -62135596800000001)],
)
@pytest.mark.parametrize("depth", ["list<{}>", "map<string,{}>"])
def test_what_csv_cannot_hold_is_refused_by_the_export(tmp_path: Path, kind: str, number: int, depth: str):
    schema = sl.Schema({"k": "int"}, {}, {"v": depth.format(kind)})
    far = pa.array([number], pa.int32() if kind == "date" else pa.int64()).cast(
        pa.date32() if kind == "date" else pa.timestamp("us", "UTC")
    )
    column = {
        "list<{}>": lambda: pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), far),
        "map<string,{}>": lambda: pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["a"]), far),
    }[depth]()
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", schema)
        table.ingest(pa.table({"k": pa.array([1], pa.int32()), "v": column}))
        with pytest.raises(sl.InvalidInput, match=r"column 'v' has .*, a date that CSV cannot hold") as error:
            table.export(tmp_path / "out.csv")
        assert "parquet" in (error.value.hint or "")
        assert not (tmp_path / "out.csv").exists()
        assert table.export(tmp_path / "out.parquet").rows == 1


def test_days_and_moments_of_all_years_are_exact(tmp_path: Path):
    days = [2932897, -719163, 11248737, -12687428, 0, 11016]
    moments = [253402300800000000, -62135596800000001, 971890963199999999, -1096193779200000000, 0, 951782400000001]
    schema = sl.Schema({"k": "int"}, {}, {"d": "date", "t": "timestamp"})
    columns = {
        "d": pa.array(days, pa.int32()).cast(pa.date32()),
        "t": pa.array(moments).cast(pa.timestamp("us", "UTC")),
    }
    rows = pa.table({"k": pa.array(range(6), pa.int32()), **columns})
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", schema)
        table.ingest(rows)
        table.export(tmp_path / "out.csv")
        found = sources.read_sources(sources.find_sources(tmp_path / "out.csv"), schema).rows
        assert found == rows.cast(schema.arrow)
        for k, name, number in (
            (1, "d", 11248738),
            (1, "d", -12687429),
            (2, "t", 971890963200000000),
            (2, "t", 2**63 - 1),
        ):
            other = session.create_table(f"far{number}".replace("-", "_"), schema)
            far = pa.array([number] * 6, pa.int32() if k == 1 else pa.int64()).cast(columns[name].type)
            other.ingest(rows.set_column(k, name, far))
            with pytest.raises(sl.InvalidInput, match=f"column '{name}' has .*, a date that CSV cannot hold"):
                other.export(tmp_path / "more.csv")
        assert not (tmp_path / "more.csv").exists()


PLAIN = sl.Schema(
    {"k": "string"}, {}, {"n": "int?", "x": "double?", "b": "bytearray?", "t": "timestamp?", "v": "string?"}
)


def read(path: Path, schema: sl.Schema = PLAIN, **options: Any) -> list[dict[str, Any]]:
    rows = sources.read_sources(sources.find_sources(path, None, sources.CsvFormat(**options)), schema).rows
    return rows.to_pylist()


def written(folder: Path, text: str | bytes, name: str = "in.csv") -> Path:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


@pytest.mark.parametrize("name", ["in.csv", "in.TSV", "in.csv.gz"])
@pytest.mark.parametrize("twice", ["k", "v", "k and v"])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_header_that_has_a_name_twice_is_refused(tmp_path: Path, name: str, twice: str, rows: int):
    names = ["k", "v", *twice.split(" and ")]
    separator = "\t" if "TSV" in name else ","
    content = "".join(separator.join(line) + "\n" for line in [names, *[["1"] * len(names)] * rows]).encode()
    path = written(tmp_path, gzip.compress(content) if name.endswith("gz") else content, name)
    schema = sl.Schema({"k": "int"}, {}, {"v": "string?"})
    problems = {f"column {column!r} occurs twice" for column in twice.split(" and ")}
    with sl.connect(tmp_path / "warehouse") as session:
        table = session.create_table("t", schema)
        plan = table.ingest(path, dry_run=True).plan
        assert {each.problem for each in plan.differences} == problems
        with pytest.raises(sl.InvalidInput, match="occurs twice"):
            table.ingest(path)
        assert [snapshot.id for snapshot in table.history()] == [1]


def test_null_text_and_numbers_mean_what_they_say(tmp_path: Path):
    path = written(tmp_path, 'k,n,x,b,v\n"",,NaN,,NULL\nNA,"",inf,"",\nnull, 7 ,-Infinity,/w==,""\n')
    got = read(path)
    assert [(row["k"], row["n"], row["v"], row["b"]) for row in got] == [
        ("", None, "NULL", None), ("NA", None, None, b""), ("null", 7, "", b"\xff"),
    ]  # fmt: skip
    assert same([row["x"] for row in got], [NAN, INF, -INF])
    path = written(tmp_path, 'k,n,x,v\n"NA",NA,"NA",NA\nb,1,2,"NA"\n')
    assert [(row["k"], row["n"], row["x"], row["v"]) for row in read(path, null_text="NA")] == [
        ("NA", None, None, None), ("b", 1, 2.0, "NA"),
    ]  # fmt: skip


TEXTS = sl.Schema({"k": "string"}, {}, {"v": "string?"})
WHOLE = 'k,v\n"a","1"\n"b ""c"" d","2\n3"\n'


@pytest.mark.parametrize("end", range(len("k,v\n") + 1, len(WHOLE)))
def test_a_file_that_is_cut_anywhere_within_quotes_is_refused(tmp_path: Path, end: int):
    text = WHOLE[:end]
    quoted = text.count('"') % 2 == 1
    if not quoted:
        return
    with pytest.raises(sl.InvalidInput, match=r"in.csv ends inside quotes"):
        read(written(tmp_path, text), TEXTS)


@pytest.mark.parametrize(
    "text",
    ['"b\\"', '"b\\"\n', '"b\\\\\\"', "b\\", "b\\\n", '5\\" disk\nb,"c', '5" disk\nb,"c', '"b"\nc,"d\\"\ne,f\n'],
)
@pytest.mark.parametrize("block", [1, 2, 1 << 20])
def test_a_file_with_escapes_that_is_cut_within_quotes_or_after_an_escape_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, block: int
):
    check_in_blocks(monkeypatch, block)
    with pytest.raises(sl.InvalidInput, match=r"in.csv ends inside quotes"):
        read(written(tmp_path, f"k,v\na,{text}"), TEXTS, escape="\\")


@pytest.mark.parametrize(
    ("text", "value"),
    [('"b\\""', 'b"'), ('"b\\\\"', "b\\"), ("b\\\\", "b\\"), ('b\\"', 'b"'), ('"b\\\nc"', "b\nc"), ('"b"', "b")],
)
@pytest.mark.parametrize("block", [1, 2, 1 << 20])
@pytest.mark.parametrize("end", ["", "\n"])
def test_escaped_characters_are_read_where_a_block_ends_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, value: str, block: int, end: str
):
    check_in_blocks(monkeypatch, block)
    assert [row["v"] for row in read(written(tmp_path, f"k,v\na,{text}{end}"), TEXTS, escape="\\")] == [value]


def check_in_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Check the quotes of files in blocks of some bytes."""
    check = csv_text.Quotes.check
    monkeypatch.setattr(
        csv_text.Quotes,
        "check",
        lambda self, found: [check(self, found[i : i + size]) for i in range(0, len(found), size)] and None,
    )


@pytest.mark.parametrize("text", ['k\n"a\n', 'k\n"a', 'k\na\n"'])
def test_a_file_of_one_column_that_is_cut_within_quotes_is_refused(tmp_path: Path, text: str):
    with pytest.raises(sl.InvalidInput, match="inside quotes"):
        read(written(tmp_path, text), sl.Schema({"k": "string"}))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("in.csv", 'k,n\n"a\nb",1\nc,1.5\n', "column 'n', line 4: '1.5'"),
        ("in.csv", "\nk,n\n\na,1\n\nb,0x10\n", "column 'n', line 6: '0x10'"),
        ("in.tsv", "k\tx\na\t1e400\n", "column 'x', line 2: '1e400'"),
        ("in.csv", "k,x\na,9007199254740993\n", "column 'x', line 2: '9007199254740993'"),
        ("in.csv", "k,b\na,AQ==\nb,no base64\n", "column 'b', line 3: 'no base64'"),
        ("in.csv", "k,t\na,2026-01-01\nb,2026-02-30\n", "column 't', line 3: '2026-02-30'"),
        ("in.csv", "k,n\na,NA\n", "column 'n', line 2: 'NA'"),
        ("in.CSV.GZ", "k,n\na,x\n", "column 'n', line 2: 'x'"),
        ("in.json", '{"k": "a"}\n\n{"k": "b", "n": 2147483648}\n', "column 'n', line 3: 2147483648"),
        ("in.json", '{"k": "a", "x": 1}\n{"k": "b", "x": 9007199254740993}\n', "column 'x', line 2: 9007199254740993"),
        ("in.json", '{"k": "a", "x": 1e400}\n', "column 'x', line 1: 1e400"),
        ("in.json", '{"k": "a", "b": "?"}\n', "column 'b', line 1: '\\?'"),
        ("in.json", '[{"k": "a"},\n {"k": "b",\n  "n": 1.5}]', "column 'n', line 2: 1.5"),
        ("in.json", '{"k": 5}\n', "column 'k', line 1: 5"),
    ],
)
def test_a_bad_value_names_its_column_and_line(tmp_path: Path, name: str, text: str, words: str):
    content = text.encode()
    path = written(tmp_path, gzip.compress(content) if name.lower().endswith("gz") else content, name)
    with pytest.raises(sl.InvalidInput, match=words) as error:
        read(path)
    assert error.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"k": "a"}\n{"k": ', "line 2"),
        ('{"k": "a"}\n["b"]\n', "line 2: it is not an object"),
        ('{"k": "a", "k": "b"}\n', "line 1: a name occurs twice"),
        ('[{"k": "a"},\n{"k": "b"}', "line 2: the array is not closed"),
        ('[{"k": "a"}, ]', "line 1: a value is missing"),
        ('[{"k": "a"} {"k": "b"}]', "line 1: a comma is missing"),
        ('[{"k": "a"}]\nmore', "line 1: something follows"),
        ("[1]", "line 1: it is not an object"),
        ('{"k": "a"} {"k": "b"}\n', "line 1"),
    ],
)  # fmt: skip
def test_what_is_no_json_names_its_line(tmp_path: Path, text: str, words: str):
    with pytest.raises(SleeperError, match=words):
        read(written(tmp_path, text, "in.json"))


JSON_ROWS = [
    {"k": "a", "n": 1, "x": 0.1, "b": "/w==", "t": "2026-01-01T10:00:00.123456Z", "v": "é"},
    {"k": "b", "n": 2, "x": 1e22, "t": None},
]


@pytest.mark.parametrize("name", ["in.json", "in.JSONL", "in.ndjson", "in.json.gz", "array.json", "pretty.json"])
def test_objects_by_line_and_an_array_of_objects_are_the_same_rows(tmp_path: Path, name: str):
    text = "\n".join(map(json.dumps, JSON_ROWS))
    if name in {"array.json", "pretty.json"}:
        text = json.dumps(JSON_ROWS, indent=2 if name == "pretty.json" else None)
    content = gzip.compress(text.encode()) if name.endswith("gz") else b"\xef\xbb\xbf" + text.encode()
    got = read(written(tmp_path, content, name))
    assert [(row["k"], row["n"], row["x"], row["b"], row["v"]) for row in got] == [
        ("a", 1, 0.1, b"\xff", "é"), ("b", 2, 1e22, None, None),
    ]  # fmt: skip
    assert got[0]["t"] == datetime(2026, 1, 1, 10, 0, 0, 123456, UTC)


def test_json_has_lists_maps_and_all_digits(tmp_path: Path):
    schema = sl.Schema({"k": "long"}, {}, {"l": "list<decimal(20,3)>?", "m": "map<string,date>?", "f": "float?"})
    text = (
        '{"k": 9007199254740993, "l": [9007199254740993.001, null], "m": {"a": "2026-01-01"}, "f": 0.1}\n{"k": 1.0}\n'
    )
    assert read(written(tmp_path, text, "in.json"), schema) == [
        {"k": 2**53 + 1, "l": [Decimal("9007199254740993.001"), None], "m": [("a", date(2026, 1, 1))],
         "f": 0.10000000149011612},
        {"k": 1, "l": None, "m": None, "f": None},
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["in.csv", "in.json", "array.json"])
def test_rows_of_many_blocks_are_those_of_one_and_lines_go_on(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    schema = sl.Schema({"k": "int"}, {}, {"v": "string?"})
    rows = [{"k": i, "v": f"{i},\"\n'" * (i % 3)} for i in range(300)]
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", schema)
        table.ingest(rows)
        if name == "in.csv":
            table.export(tmp_path / name)
        else:
            text = json.dumps(rows) if name == "array.json" else "\n".join(map(json.dumps, rows))
            (tmp_path / name).write_text(text)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 512)
    monkeypatch.setattr(json_files, "BLOCK_BYTES", 512)
    assert read(tmp_path / name, schema) == rows
    content = (tmp_path / name).read_text().replace("\n250,", "\n2x5,").replace('"k": 250', '"k": 2.5')
    (tmp_path / name).write_text(content)
    at = content.find("2x5") if name == "in.csv" else content.find('"k": 2.5')
    with pytest.raises(sl.InvalidInput, match=f"column 'k', line {content.count(chr(10), 0, at) + 1}:"):
        read(tmp_path / name, schema)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": ";;"}, "';;' is not a valid delimiter"), ({"delimiter": '"'}, "not a valid delimiter"),
        ({"delimiter": ""}, "not a valid delimiter"),
        ({"delimiter": 5}, "delimiter takes a string or None, not 5"),
        ({"null_text": 'N"A'}, "not a valid null text"),
        ({"null_text": 5}, r"null_text takes a string.* or None, not 5"),
        ({"null_text": "a,b"}, "not a valid null text"), ({"null_text": "a\nb"}, "not a valid null text"),
        ({"header": "no"}, "header takes True or False, not the string 'no'"),
    ],
)  # fmt: skip
def test_options_that_csv_cannot_have_are_refused(session: sl.Session, tmp_path: Path, options: Any, words: str):
    table = session.table("given")
    with pytest.raises(sl.InvalidInput, match=words):
        table.ingest(tmp_path, **options)
    with pytest.raises(sl.InvalidInput, match=words):
        table.export(tmp_path / "out.csv", **options)
    assert list(tmp_path.iterdir()) == []


def test_options_of_csv_go_with_csv_alone(session: sl.Session, tmp_path: Path):
    table = session.table("given")
    with pytest.raises(sl.InvalidInput, match="no CSV file"):
        table.ingest(ROWS, delimiter=";")
    with pytest.raises(sl.InvalidInput, match="Parquet has no delimiter"):
        table.export(tmp_path / "out.parquet", delimiter=";")


def test_nan_of_pandas_is_null_and_that_is_said(tmp_path: Path):
    class Lines:
        def __init__(self) -> None:
            self.kept: list[str] = []

        def update(self, *_: Any) -> None: ...

        def finish(self, text: str = "") -> None:
            self.kept += [text] if text else []

    lines = Lines()
    schema = sl.Schema({"k": "int"}, {}, {"x": "double?", "y": "double", "n": "double?"})
    with sl.connect(tmp_path / "w", progress=lines) as session:
        table = session.create_table("t", schema)
        frame = pd.DataFrame({"k": [1, 2, 3], "x": [0.5, NAN, NAN], "y": [1.0, 2.0, 3.0]})
        frame["n"] = pd.array([1.0, None, 3.0], "Float64")
        said = "column 'x': 2 NaN values in pandas stored as NULL"
        assert said in repr(table.ingest(frame, dry_run=True))
        table.ingest(frame)
        assert lines.kept == [said]
        assert table.scan().to_arrow()["x"].to_pylist() == [0.5, None, None]
        with pytest.raises(sl.InvalidInput, match=r"column 'y' has 1 null .*1 NaN value in pandas stored as NULL"):
            table.ingest(frame.assign(y=[1.0, NAN, 3.0]))
        table.ingest(pa.table({"k": pa.array([9], pa.int32()), "x": [NAN], "y": [NAN], "n": [NAN]}))
        assert lines.kept == [said]


def test_a_moment_of_a_json_file_in_another_zone_is_the_same_moment(tmp_path: Path):
    path = written(tmp_path, '{"k": "a", "t": "2026-01-01T10:00:00+09:00"}', "in.json")
    assert read(path)[0]["t"] == datetime(2026, 1, 1, 10, tzinfo=UTC) - timedelta(hours=9)


def test_an_array_of_no_objects_has_no_rows_and_lacks_no_column(tmp_path):
    file = tmp_path / "day.json"
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"m": "map<string,int>?"}))
        for text in ("[]", " [\n]\n"):
            file.write_text(text)
            assert table.ingest(file, dry_run=True).rows == 0
            assert table.ingest(file).snapshot_id == 1
        full = tmp_path / "other.json"
        full.write_text('[{"k": 1, "m": null}]')
        assert table.ingest([file, full]).rows == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('k,v\na,"b" c\n', 2),
        ('k,v\na,"a" b"c\n', 2),
        ('k,v\na,""x""\n', 2),
        ('k,v\na,"b"""c\n', 2),
        ('k,v\nx,"1\n2"\na,"b\n"c\n', 5),
        ('k,v\n"a"b,c\n', 2),
        ('k,v\nx,"é"é', 2),
    ],
)
@pytest.mark.parametrize("block", [1, 2, 3, 1 << 20])
def test_a_value_that_goes_on_after_its_closing_quote_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, block: int
):
    check_in_blocks(monkeypatch, block)
    with pytest.raises(sl.InvalidInput, match=f"line {line}: a value continues after its closing quote"):
        read(written(tmp_path, text), TEXTS)


@pytest.mark.parametrize(
    "text",
    ['5" disk', '5" and 7" disks', 'a""b', '"a ""b"" c"', '"""a"""', '""', '""""', '"\n"', '"a\n""\n"', '"a,""b"'],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_other_quotes_are_read(tmp_path: Path, text: str, end: str):
    expected = next(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert [row["v"] for row in read(written(tmp_path, f"k,v\na,{text}{end}"), TEXTS)] == expected
    assert [row["k"] for row in read(written(tmp_path, f"k,v\n{text},a{end}"), TEXTS)] == expected


def test_a_comment_above_the_names_is_not_taken_for_a_name(tmp_path: Path):
    path = tmp_path / "fares.csv"
    path.write_text("# fares; from the office\nk,n\n1,2\n")
    with sl.connect(tmp_path / "w") as session:
        with pytest.raises(sl.InvalidInput, match="is one value, '# fares; from the office'") as caught:
            session.create_table("t", str(path), row_keys=["k"])
        assert caught.value.hint == "if it is a comment, add comment='#'"
        table = session.create_table("t", str(path), row_keys=["k"], comment="#")
        with pytest.raises(sl.InvalidInput, match=r"line 2 has 2 values(?s:.)*to skip lines above the header, add"):
            table.ingest(str(path))


def test_a_file_of_one_column_may_have_any_name_for_it(tmp_path: Path):
    path = tmp_path / "ids.csv"
    path.write_text("#id\n1\n2\n")
    with sl.connect(tmp_path / "w") as session:
        made = session.create_table("t", str(path), row_keys=["id"], columns={"#id": "id"})
        assert made.scan().to_arrow()["id"].to_pylist() == [1, 2]


def test_keys_of_json_that_are_written_with_escapes_reach_their_columns(tmp_path: Path):
    path, rows = tmp_path / "x.json", [{"k": 1, "name": "a"}, {"k": 2, "name": "b"}, {"k": 3, "name": "c"}]
    path.write_text('{"k":1,"n\\u0061me":"a"}\n{"k":2,"name":"b"}\n{"\\u006b":3,"\\u006E\\u0061me":"c"}\n')
    with sl.connect(tmp_path / "w") as session:
        for kind in ("string", "string?"):
            made = session.create_table(f"t{len(kind)}", sl.Schema({"k": "long"}, values={"name": kind}))
            made.ingest(path)
            assert made.scan().to_arrow().to_pylist() == rows
        assert session.create_table("new", path, row_keys=["k"]).scan().to_arrow().to_pylist() == rows
        path.write_text('{"k":4,"n\\u0061me":null}\n')
        with pytest.raises(sl.InvalidInput, match="column 'name' has 1 null"):
            session.table("t6").ingest(path)
        session.table("t7").ingest(path)
        assert session.table("t7").scan(keys=4).to_arrow().to_pylist() == [{"k": 4, "name": None}]


def test_damaged_row_keys_of_a_parquet_file_are_an_error_that_names_it_where_they_are_sampled(tmp_path: Path):
    path, rows = tmp_path / "in.parquet", 150_000  # more than those that are looked at for the types
    pq.write_table(pa.table({"k": range(rows)}), path, use_dictionary=False, row_group_size=rows // 2)
    whole = bytearray(path.read_bytes())
    begin = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    whole[begin : begin + 2_000] = b"\xff" * 2_000
    path.write_bytes(whole)
    with sl.connect(tmp_path / "w") as session, pytest.raises(sl.StorageError, match=r"cannot read .*in\.parquet"):
        session.admin.plan_table("t", path, row_keys=["k"], leaves=2)


def test_a_null_beside_another_value_than_the_folder_s_is_refused(tmp_path: Path):
    (tmp_path / "in/k=1").mkdir(parents=True)
    pq.write_table(pa.table({"k": [None, 2], "v": [1, 2]}), tmp_path / "in/k=1/a.parquet")
    with sl.connect(tmp_path / "w") as session:
        table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"v": "int"}))
        with pytest.raises(sl.InvalidInput, match="with other values than its folder k=1"):
            table.ingest(tmp_path / "in", quarantine=tmp_path / "bad.parquet")
        assert table.scan().count() == 0
