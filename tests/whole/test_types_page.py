"""The page of types: each cell of its table is what the libraries show and what loads accept."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

import sleeper_nb as sl
from sleeper_nb.model.evolution import widens
from sleeper_nb.model.schema import SIMPLE_TYPES, FieldType, parse_type
from tests.support.types_page import ROWS


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    with sl.connect(tmp_path / "warehouse") as opened:
        yield opened


def a_table(session: sl.Session, name: str, kind: str) -> sl.Table:
    return session.create_table(name, sl.Schema({"k": "int"}, {}, {"v": f"{kind}?"}))


def csv_file(folder: Path, cell: str) -> Path:
    file = folder / "in.csv"
    file.write_text(f"k,v\n1,{cell}\n", encoding="utf-8")
    return file


def json_file(folder: Path, *cells: str) -> Path:
    file = folder / "in.json"
    lines = [f'{{"k": {number}, "v": {cell}}}\n' for number, cell in enumerate(cells, 1)]
    file.write_text("".join(lines), encoding="utf-8")
    return file


def values(table: sl.Table) -> list[Any]:
    return table.scan().to_arrow().sort_by("k")["v"].to_pylist()


def loaded(session: sl.Session, kind: str, data: Any) -> list[Any]:
    """Return the values of a new table after a load."""
    table = a_table(session, f"t{len(session.tables())}", kind)
    table.ingest(data)
    return values(table)


def test_every_type_has_a_row_on_the_page():
    assert {parse_type(kind).name for kind in ROWS} == {*SIMPLE_TYPES, "decimal", "list", "map", "struct"}
    for kind in ROWS:
        assert str(parse_type(kind)) == kind


@pytest.mark.parametrize("kind", ROWS)
def test_the_words_of_duckdb_and_spark_are_read(kind: str):
    for engine in ("DuckDB", "Spark"):
        read = str(parse_type(ROWS[kind][engine].replace("time(6)", "time"))).replace("?", "")
        assert read == ("string" if (kind, engine) == ("uuid", "Spark") else kind.replace("?", ""))


@pytest.mark.parametrize("kind", ROWS)
def test_the_libraries_show_the_types_of_the_page_and_give_the_values_back(
    kind: str, session: sl.Session, tmp_path: Path
):
    row = ROWS[kind]
    table = a_table(session, "full", kind)
    table.ingest(json_file(tmp_path, row["JSON"]))
    scan = table.scan()
    assert str(scan.to_arrow().schema.field("v").type) == row["Arrow"]
    assert str(scan.to_pandas()["v"].dtype) == row["pandas"]
    assert str(scan.to_polars()["v"].dtype) == row["Polars"]
    assert str(scan.to_duckdb().types[1]) == row["DuckDB"]
    nulls = a_table(session, "nulls", kind)
    nulls.ingest(json_file(tmp_path, row["JSON"], "null"))
    scan, expected = nulls.scan(), values(nulls)
    assert expected[1] is None
    assert str(scan.to_pandas()["v"].dtype) == row["with NULL"]
    for data in (scan.to_arrow(), scan.to_pandas(), scan.to_polars(), scan.to_duckdb(), scan.to_arrow().to_pylist()):
        assert loaded(session, kind, data) == expected


@pytest.mark.parametrize("kind", ROWS)
def test_what_is_published_has_the_type_of_the_page_and_the_values(kind: str, session: sl.Session, tmp_path: Path):
    row = ROWS[kind]
    table = a_table(session, "t", kind)
    table.ingest(json_file(tmp_path, row["JSON"], "null"))
    published = StaticTable.from_metadata(table.publish().address)
    assert str(published.schema().find_type("v")).partition("<")[0] == row["Iceberg"]
    assert published.scan().to_arrow().sort_by("k")["v"].to_pylist() == values(table)


@pytest.mark.parametrize("kind", ROWS)
def test_files_have_the_values_as_the_page_writes_them(kind: str, session: sl.Session, tmp_path: Path):
    row = ROWS[kind]
    expected = loaded(session, kind, json_file(tmp_path, row["JSON"]))
    assert loaded(session, kind, csv_file(tmp_path, row["CSV"])) == expected
    session.table("t0").export(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == f'"k","v"\n1,{row["CSV"]}\n'
    session.table("t0").export(tmp_path / "out.parquet")
    assert loaded(session, kind, tmp_path / "out.parquet") == expected


def quoted(text: str, folder: Path) -> Path:
    """Return a CSV file with a text as its value."""
    with (folder / "in.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["k", "v"], [1, text]])
    return folder / "in.csv"


@pytest.mark.parametrize("kind", ROWS)
def test_values_reach_as_far_as_the_page_says_and_no_further(kind: str, session: sl.Session, tmp_path: Path):
    row = ROWS[kind]
    for text in filter(None, (row["least"], row["greatest"])):
        table = a_table(session, f"t{len(session.tables())}", kind)
        table.ingest(quoted(text, tmp_path))
        kept = table.scan().to_arrow()
        again = a_table(session, f"t{len(session.tables())}", kind)
        again.ingest(table.scan().to_duckdb())
        assert again.scan().to_arrow() == kept
    if row["refused"]:
        with pytest.raises(sl.InvalidInput, match=re.escape("column 'v")) as error:
            loaded(session, kind, quoted(row["refused"], tmp_path))
        assert "line 2" in str(error.value)


@pytest.mark.parametrize("kind", ROWS)
def test_a_type_becomes_those_of_the_page_and_no_other_of_it(kind: str):
    known, wider = parse_type(kind), types_in(ROWS[kind]["can become"])
    assert all(widens(known, each) for each in wider)
    others = {parse_type(other) for other in ROWS} - {known}
    assert {each for each in others if widens(known, each) and each.name != "decimal"} <= wider


def types_in(cell: str) -> set[FieldType]:
    """Return the types that a cell lists."""
    return {parse_type(text) for text in cell.split("`, `") if text}
