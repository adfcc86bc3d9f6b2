"""Files in Hive's folders, with columns in different order or absent, of the web, and of Excel."""

from __future__ import annotations

import http.server
import threading
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import sleeper_nb as sl
from sleeper_nb.load import sources

SCHEMA = sl.Schema({"year": "int"}, {}, {"month": "string?", "day": "date?", "x": "double?"})


@pytest.fixture
def session(tmp_path: Path):
    with sl.connect(tmp_path / "warehouse") as opened:
        yield opened


@pytest.fixture
def table(session):
    return session.create_table("t", SCHEMA, [2013])


def rows(table: Any) -> list[tuple[Any, ...]]:
    got = table.scan().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in got), key=str)


def write(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        parquet.write_table(pa.table(columns), path)
    elif path.suffix == ".csv":
        pd.DataFrame(columns).to_csv(path, index=False)
    else:
        pd.DataFrame(columns).to_json(path, orient="records", lines=True)


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
@pytest.mark.parametrize("pattern", ["", "*/*/*.{}", "**/*.{}", "year=201*/*/x.{}"])
def test_names_of_folders_give_columns_of_the_tables_types(table, tmp_path: Path, ending: str, pattern: str):
    write(tmp_path / f"in/year=2013/month=1%2F2/x.{ending}", x=[1.5])
    write(tmp_path / f"in/year=2014/month=__HIVE_DEFAULT_PARTITION__/x.{ending}", x=[2.5])
    source = str(tmp_path / "in" / pattern.format(ending))
    plan = table.ingest(source, dry_run=True).plan
    assert (plan.rows, plan.differences, [leaf.rows for leaf in plan.leaves]) == (2, (), [2])
    assert "taken from the names of folders: year, month" in repr(plan)
    table.ingest(source)
    assert rows(table) == [(2013, "1/2", None, 1.5), (2014, None, None, 2.5)]


@pytest.mark.parametrize("relative", [True, False])
def test_a_folder_in_the_typed_path_gives_a_column_that_the_file_lacks(table, tmp_path, monkeypatch, relative: bool):
    write(tmp_path / "run=5/year=2013/x.csv", x=[1.5])
    write(tmp_path / "run=5/year=2013/y.csv", x=[2.5], year=[2012])
    monkeypatch.chdir(tmp_path)
    start = "" if relative else f"{tmp_path}/"
    table.ingest([f"{start}run=5/year=2013/x.csv", f"{start}run=5/year=2013/y.*"])
    assert rows(table) == [(2012, None, None, 2.5), (2013, None, None, 1.5)]


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_folders_that_do_not_fit_are_differences(table, tmp_path: Path, ending: str):
    write(tmp_path / f"in/year=soon/x.{ending}", x=[1.5])
    write(tmp_path / f"in/year=2013/run=1/x.{ending}", x=[1.5], year=[2013])
    write(tmp_path / f"in/year=2013/y.{ending}", x=[1.5], year=[2012])
    plan = table.ingest(tmp_path / "in", dry_run=True).plan
    assert sorted((each.column, each.kind) for each in plan.differences) == [
        ("run", "unknown column"), ("year", "differs from its folder"), ("year", "is not a number"),
    ]  # fmt: skip
    with pytest.raises(sl.InvalidInput):
        table.ingest(tmp_path / "in", ignore_extra=True)
    table.ingest(tmp_path / "in/year=2013/run=1", ignore_extra=True)
    table.ingest(f"{tmp_path}/in/year=2013/*/*", ignore_extra=True)
    assert rows(table) == [(2013, None, None, 1.5)] * 2


def test_a_folder_whose_name_is_not_utf8_is_refused(table, tmp_path: Path):
    write(tmp_path / "in/month=%ff/x.csv", year=[2013])
    with pytest.raises(sl.InvalidInput, match="'%ff' in the name of a folder is not UTF-8"):
        table.ingest(tmp_path / "in")


def test_files_differ_in_order_and_number_of_columns(table, tmp_path: Path):
    write(tmp_path / "in/a.parquet", x=[1.5], year=[2013])
    write(tmp_path / "in/b.csv", year=[2014], day=["2026-01-02"], month=["1"])
    write(tmp_path / "in/c.json", month=["2"], year=[2015])
    table.ingest(tmp_path / "in")
    assert rows(table) == [
        (2013, None, None, 1.5), (2014, "1", date(2026, 1, 2), None), (2015, "2", None, None),
    ]  # fmt: skip


@pytest.fixture
def server(tmp_path: Path):
    folder = tmp_path / "web"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path.startswith("/short"):
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                self.wfile.write(b"year\n")
            elif self.path.startswith("/query"):
                self.send_response(200)
                self.send_header("Content-Type", "text/csv; charset=utf-8")
                self.end_headers()
                self.wfile.write(b"year\n2013\n")
            elif self.path.startswith("/private"):
                self.send_error(403)
            else:
                super().do_GET()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as opened:
        thread = threading.Thread(target=opened.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{opened.server_port}", folder
        opened.shutdown()
        thread.join()


def test_files_of_the_web_are_read_as_local_files(table, server, tmp_path: Path, monkeypatch):
    address, folder = server
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    write(folder / "a.parquet", year=[2013])
    write(folder / "b c.csv", year=[2014])
    assert table.ingest(f"{address}/a.parquet", dry_run=True).rows == 1
    table.ingest([f"{address}/a.parquet", f"{address}/b%20c.csv?signature=secret", f"{address}/query?format=csv"])
    assert [row[0] for row in rows(table)] == [2013, 2013, 2014]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_wrong_with_a_file_of_the_web_names_its_address_without_secrets(table, server):
    address, folder = server
    (folder / "a.csv").write_text("year,x\n2013,y\n")
    (difference,) = table.ingest(f"{address}/a.csv?key=secret", dry_run=True).plan.differences
    assert difference.first_at == f"{address}/a.csv, line 2"
    (folder / "page.html").write_text("<table></table>")
    wrong = {
        "none.csv": (sl.NotFound, f"no file at {address}/none.csv"),
        "short.csv": (sl.NetworkError, "ended after 5 of 100 bytes"),
        "private.csv": (sl.NetworkError, "the server answered 403"),
        "page.html": (sl.InvalidInput, "is a web page, not a data file"),
    }
    for name, (kind, message) in wrong.items():
        with pytest.raises(kind, match=message) as error:
            table.ingest(f"{address}/{name}?key=secret")
        assert "secret" not in str(error.value)
    assert table.at().resolved.snapshot_id == 1


def test_without_a_network_the_error_says_what_to_do(table, server):
    address, _ = server
    closed = address.rpartition(":")[0] + ":9"
    with pytest.raises(sl.NetworkError, match=f"cannot download {closed}/a.csv: ") as error:
        table.ingest(f"{closed}/a.csv")
    assert "check the address, the network and the proxy" in (error.value.hint or "")
    with pytest.raises(sl.SleeperError):
        table.ingest("https://[::1/a.csv")


def test_a_large_file_of_the_web_is_refused_before_it_comes(server):
    address, folder = server
    (folder / "a.csv").write_text("year\n" + "2013\n" * 1000)
    with (
        sources.downloads(most_bytes=100) as web,
        pytest.raises(sl.InvalidInput, match=r"at most 0.0 MiB are downloaded"),
    ):
        web.file(f"{address}/a.csv")


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, lines in sheets.items():
        sheet = book.create_sheet(name)
        for line in lines:
            sheet.append(line)
    book.save(path)
    return path


def test_an_excel_file_is_read_by_its_sheet(table, tmp_path: Path):
    lines = [
        ["made by x"],
        [],
        ["year", "Day", "x", None],
        [2013, date(2026, 1, 2), 1, None],
        [],
        [2014, None, 2.5],
    ]
    path = workbook(tmp_path / "a.xlsx", trips=lines, notes=[["a"]])
    with pytest.raises(sl.InvalidInput, match=r"a.xlsx has 2 sheets") as error:
        table.ingest(path)
    assert error.value.hint == "name one of trips, notes: sheet='trips'"
    table.ingest(path, sheet="trips", skip_lines=2, by_name=True)
    assert rows(table) == [(2013, None, date(2026, 1, 2), 1.0), (2014, None, None, 2.5)]
    with pytest.raises(sl.InvalidInput, match="no sheet 'trip'"):
        table.ingest(path, sheet="trip")
    with pytest.raises(sl.InvalidInput, match=r"delimiter, decimal are given, but no CSV file\nhint: .*skip_lines"):
        table.ingest(path, sheet="trips", skip_lines=2, decimal=",", delimiter=";")


def test_cells_that_do_not_fit_are_shown_with_their_row(table, tmp_path: Path):
    path = workbook(tmp_path / "a.xlsx", trips=[["year", "month", "x"], [2013, 1, 1], [2014, "b", "N/A"]])
    plan = table.ingest(path, dry_run=True).plan
    assert [(each.column, each.count, each.place) for each in plan.differences] == [
        ("month", "1", "row 2"), ("x", "1", "row 3"),
    ]  # fmt: skip
    table.ingest(path, cast=True, null_text=["N/A"])
    assert rows(table) == [(2013, "1", None, 1.0), (2014, "b", None, None)]


@pytest.mark.parametrize(
    ("value", "problem"), [("=A2+1", "has a formula without a stored result in"), ("#DIV/0!", "shows #DIV/0! in")]
)
def test_cells_without_a_value_are_refused_and_named(session, table, tmp_path: Path, value: str, problem: str):
    path = workbook(tmp_path / "a.xlsx", trips=[["year", "x"], [2013, 1], [2014, value]])
    (difference,) = table.ingest(path, dry_run=True).plan.differences
    assert difference.problem == f"column 'x', row 3, {problem} cell B3"
    with pytest.raises(sl.InvalidInput, match="cell B3"):
        table.ingest(path)
    with pytest.raises(sl.InvalidInput, match="cell B3"):
        session.create_table("made", data=path, row_keys=["year"])
    if value.startswith("#"):
        table.ingest(path, null_text=["", value])
        assert rows(table) == [(2013, None, None, 1.0), (2014, None, None, None)]


def test_the_hint_for_a_cell_with_an_error_keeps_the_texts_that_mean_null(table, tmp_path: Path):
    path = workbook(tmp_path / "a.xlsx", trips=[["year", "x"], [2013, "none"], [2014, "#N/A"]])
    with pytest.raises(sl.InvalidInput, match="cell B3") as error:
        table.ingest(path, null_text=["none"])
    assert "null_text=['none', '#N/A']" in (error.value.hint or "")
    table.ingest(path, null_text=["none", "#N/A"])
    assert rows(table) == [(2013, None, None, None), (2014, None, None, None)]


def test_cells_without_a_value_do_not_matter_in_columns_that_are_left_out(table, tmp_path: Path):
    path = workbook(tmp_path / "a.xlsx", trips=[["year", "other", None], [2013, "=A2", 5], [2014, "#N/A", None]])
    table.ingest(path, ignore_extra=True)
    assert [row[0] for row in rows(table)] == [2013, 2014]


def test_unnamed_and_repeated_columns_are_the_only_differences_of_a_sheet(table, tmp_path: Path):
    path = workbook(tmp_path / "a.xlsx", trips=[["year", "x", "x", None], [2013, 1, 2, 3]])
    plan = table.ingest(path, dry_run=True).plan
    assert [(each.column, each.kind) for each in plan.differences] == [
        ("x", "occurs twice"), ("column 4 without a name", "unknown column"),
    ]  # fmt: skip


def test_an_excel_file_without_openpyxl_says_what_to_install(table, tmp_path: Path, monkeypatch):
    (tmp_path / "a.xlsx").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(sl.EngineError, match="needs packages that are not installed") as error:
        table.ingest(tmp_path / "a.xlsx")
    assert "sleeper-nb[excel]" in (error.value.hint or "")


def test_a_file_that_is_no_excel_file_is_refused(table, tmp_path: Path):
    pytest.importorskip("openpyxl")
    (tmp_path / "a.xlsx").write_bytes(b"x")
    with pytest.raises(sl.StorageError, match="it is not an Excel file"):
        table.ingest(tmp_path / "a.xlsx")
    assert table.at().resolved.snapshot_id == 1


def test_a_table_is_created_from_folders_with_values(session, tmp_path: Path):
    write(tmp_path / "in/year=2013/month=01/x.parquet", x=[1.5])
    write(tmp_path / "in/year=2014/month=02/x.parquet", x=[2.5])
    made = session.create_table("made", data=str(tmp_path / "in"), row_keys=["year"])
    assert {each.name: str(each.type) for each in made.schema.fields} == {
        "year": "long",
        "x": "double",
        "month": "string",
    }
    assert sorted(made.scan().to_arrow()["year"].to_pylist()) == [2013, 2014]


def test_a_table_is_created_from_an_excel_file(session, tmp_path: Path):
    path = workbook(tmp_path / "a.xlsx", trips=[["year", "month"], [2013, "b"], [2014, None]])
    made = session.create_table("made", data=path, row_keys=["year"])
    assert sorted(made.scan().to_arrow()["year"].to_pylist()) == [2013, 2014]
