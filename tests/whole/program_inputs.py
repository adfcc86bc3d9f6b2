"""The same rows in every form that a table takes in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import sleeper_nb as sl
from tests.whole.program_model import Named, text_of


def _arrow(rows: list[Named], schema: sl.Schema, _folder: Path) -> pa.Table:
    return pa.Table.from_pylist(rows, schema.arrow)


def _dicts(rows: list[Named], _schema: sl.Schema, _folder: Path) -> list[Named]:
    return rows


def _pandas(rows: list[Named], schema: sl.Schema, folder: Path) -> pd.DataFrame:
    # Columns of Arrow keep NaN and NULL apart.
    return _arrow(rows, schema, folder).to_pandas(types_mapper=pd.ArrowDtype)


def _polars(rows: list[Named], schema: sl.Schema, folder: Path) -> Any:
    # Polars has no maps: what has any is handed over as Arrow.
    table = _arrow(rows, schema, folder)
    return table if "map<" in str(schema.to_dict()) else pl.from_arrow(table)


def _duckdb(rows: list[Named], schema: sl.Schema, folder: Path) -> Any:
    table = _arrow(rows, schema, folder)
    connection = duckdb.connect()
    connection.register("given", table)
    return connection.table("given")


def _parquet(rows: list[Named], schema: sl.Schema, folder: Path) -> Path:
    pq.write_table(_arrow(rows, schema, folder), folder / "rows.parquet")
    return folder / "rows.parquet"


def _csv(rows: list[Named], schema: sl.Schema, folder: Path) -> Path:
    lines = [",".join(schema.names)]
    lines += [",".join(_cell(row[name]) for name in schema.names) for row in rows]
    (folder / "rows.csv").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return folder / "rows.csv"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    told = text_of(value)
    text = told if isinstance(told, str) else json.dumps(told)
    return '"' + text.replace('"', '""') + '"'


def _json(rows: list[Named], schema: sl.Schema, folder: Path) -> Path:
    lines = [json.dumps({name: text_of(row[name]) for name in schema.names}) for row in rows]
    text = "".join(f"{line}\n" for line in lines) if lines else "[]"
    (folder / "rows.json").write_text(text)
    return folder / "rows.json"


INPUTS: dict[str, Callable[[list[Named], sl.Schema, Path], Any]] = {
    "dicts": _dicts,
    "Arrow": _arrow,
    "pandas": _pandas,
    "Polars": _polars,
    "DuckDB": _duckdb,
    "Parquet": _parquet,
    "CSV": _csv,
    "JSON": _json,
}
"""By name, what makes something to ingest of rows; files are written to the folder."""
