"""The moment of a statement: `now()`, `current_date` and their like have one value, however often its rows are read.

DuckDB takes the time of each execution. The rows of a statement may be read twice, and its partitions are chosen once
before, so the functions are replaced, on a connection of the statement, by macros that return the moment it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

_TYPES: Final = {
    "now": "TIMESTAMPTZ", "get_current_timestamp": "TIMESTAMPTZ", "transaction_timestamp": "TIMESTAMPTZ",
    "current_timestamp": "TIMESTAMPTZ", "today": "DATE", "current_date": "DATE", "get_current_time": "TIMETZ",
    "current_time": "TIMETZ", "localtimestamp": "TIMESTAMP", "current_localtimestamp": "TIMESTAMP",
    "localtime": "TIME", "current_localtime": "TIME",
}  # fmt: skip
"""The functions that return the time, and the types of their values."""


def depends_on_time(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether nodes of a syntax tree name the time; a column of such a name counts too."""
    for node in nodes:
        names = node.get("column_names") or [node.get("function_name") or ""]
        if str(names[-1]).lower() in _TYPES:
            return True
    return False


def moment_of(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the value of each function that returns the time, as SQL, all of the same moment."""
    ((moment,),) = connection.execute("SELECT CAST(now() AT TIME ZONE 'UTC' AS VARCHAR)").fetchall()
    at = f"CAST('{moment}' AS TIMESTAMP)"
    zoned = f"({at} AT TIME ZONE 'UTC')"
    values = {
        "TIMESTAMPTZ": zoned,
        "TIMESTAMP": at,
        "DATE": f"CAST({at} AS DATE)",
        "TIME": f"CAST({at} AS TIME)",
        "TIMETZ": f"CAST({zoned} AS TIMETZ)",
    }
    return {name: values[kind] for name, kind in _TYPES.items()}


def set_moment(connection: duckdb.DuckDBPyConnection, moment: Mapping[str, str]) -> None:
    """Let the functions return the values of a moment, on this connection only."""
    for name, value in moment.items():
        connection.execute(f"CREATE OR REPLACE TEMP MACRO {name}() AS {value}")
