"""What other engines read of a published table: PyIceberg always, DuckDB's Iceberg extension where it is installed.

``SLEEPER_TEST_DUCKDB_ICEBERG`` names the Python of an environment of its own, with ``duckdb==1.5.5``,
``duckdb-extension-avro``, ``duckdb-extension-iceberg``, ``pyarrow`` and ``pytz``: the extension is for that release.
"""

from __future__ import annotations

import atexit
import os
import subprocess
from functools import cache
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from sleeper_nb.model.processing import NOTHING
from sleeper_nb.publish.publish import PublishReport, PublishSettings, publish
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.versions.resolve import Resolved

_PYTHON = os.environ.get("SLEEPER_TEST_DUCKDB_ICEBERG")
_PROGRAM = """
import json, pathlib, sys
import duckdb, duckdb_extension_avro, duckdb_extension_iceberg
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("SET TimeZone = 'UTC'")
for module, name in ((duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg")):
    found = next(pathlib.Path(module.__file__).parent.rglob(f"{name}.duckdb_extension"))
    con.execute(f"LOAD '{found}'")
for line in sys.stdin:
    asked = json.loads(line)
    try:
        rows = con.execute(asked["sql"]).to_arrow_table()
        import pyarrow.parquet
        pyarrow.parquet.write_table(rows, asked["to"])
        print("done", flush=True)
    except Exception as error:
        print(repr(error).replace("\\n", " "), flush=True)
"""


def published_now(store: StateStore, version: Any = None, **settings: Any) -> PublishReport:
    """Publish a version, the current one when None."""
    settings.setdefault("processing", NOTHING)
    return publish(store, "table", Resolved(version or store.head()), PublishSettings(**settings))


def by_pyiceberg(address: str, snapshot_id: int | None = None, **scan: Any) -> pa.Table:
    return StaticTable.from_metadata(address).scan(snapshot_id=snapshot_id, **scan).to_arrow()


def files_by_pyiceberg(address: str, condition: str) -> list[str]:
    """Return the data files that PyIceberg opens for a condition."""
    return [task.file.file_path for task in StaticTable.from_metadata(address).scan(condition).plan_files()]


@cache
def _duckdb() -> subprocess.Popen[str] | None:
    if not _PYTHON:
        return None
    process = subprocess.Popen([_PYTHON, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


def by_duckdb(address: str, to: str, snapshot_id: int | None = None) -> pa.Table | None:
    """Return what DuckDB reads; None where its extension is not installed."""
    import json

    import pyarrow.parquet as pq

    process = _duckdb()
    if process is None or process.stdin is None or process.stdout is None:
        return None
    chosen = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id}"
    quoted = address.replace("'", "''")
    process.stdin.write(json.dumps({"sql": f"SELECT * FROM iceberg_scan('{quoted}'{chosen})", "to": to}) + "\n")
    process.stdin.flush()
    answer = process.stdout.readline().strip()
    assert answer == "done", answer
    return pq.read_table(to)


def plain_rows(rows: pa.Table, columns: pa.Schema) -> list[str]:
    """Return rows in one order, after a check that a reader has the same columns; bits of whole numbers may be more."""
    assert rows.column_names == columns.names
    return sorted(map(repr, zip(*(_values(rows[each.name], each.type) for each in columns), strict=True)))


def _values(column: pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    values: list[Any] = (column if pa.types.is_map(kind) else column.cast(kind)).to_pylist()
    return values
