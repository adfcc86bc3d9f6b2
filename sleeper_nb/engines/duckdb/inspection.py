"""DuckDB over a version's metadata: the Parquet files of its references and partitions, and its table's history."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sleeper_nb.engines.duckdb import relations
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.savepoints import Savepoint
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.report import Answer, Grid, counted, data_rows
from sleeper_nb.storage.filesystem import Storage

_TIME = pa.timestamp("us", tz="UTC")
_TYPES = {"int": pa.int64(), "bool": pa.bool_(), "str": pa.string(), "str | None": pa.string(), "datetime": _TIME}


def inspect(
    sql: str,
    storage: Storage,
    files: pa.Table | str,
    partitions: pa.Table | str,
    snapshots: Sequence[Snapshot],
    savepoints: Sequence[Savepoint],
    *,
    footer: str,
) -> Answer:
    """Run one query over ``files``, ``partitions``, ``snapshots`` and ``savepoints``; all its rows are returned.

    Files and partitions are the path of a Parquet file, or rows where the state store keeps no such file.
    """
    connection = relations.connect()
    for name, given in (("files", files), ("partitions", partitions)):
        if isinstance(given, str):
            relations.parquet(connection, storage, [given]).create_view(name)
        else:
            connection.register(name, given)
    connection.register("snapshots", _columns(Snapshot, snapshots))
    connection.register("savepoints", _columns(Savepoint, savepoints))
    found = relations.query(connection, sql)
    if found is None:
        raise InvalidInput("the statement gives no rows", hint="ask: select status, count(*) from files group by all")
    rows = relations.to_arrow(found)
    cells = data_rows(column.to_pylist() for column in rows.columns)
    count = counted(rows.num_rows, "row")
    return Answer(Grid(tuple(rows.column_names), cells, footer=f"{count} · {footer}"))


def _columns(kind: type[Snapshot | Savepoint], values: Sequence[Any]) -> pa.Table:
    fields = dataclasses.fields(kind)
    schema = pa.schema([(field.name, _TYPES[str(field.type)]) for field in fields])
    return pa.Table.from_pylist([{f.name: getattr(value, f.name) for f in fields} for value in values], schema=schema)
