"""The local files that a statement names, and whether SQL may read them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from sleeper_nb.errors import InvalidInput
from sleeper_nb.storage.paths import CATALOG

if TYPE_CHECKING:
    import duckdb

    from sleeper_nb.engines.duckdb.statements import Query


def named_files(
    connection: duckdb.DuckDBPyConnection, query: Query, values: Mapping[str, Any], *, allowed: bool
) -> Iterator[str]:
    """Yield the absolute paths that a query names, each pattern with the files that it stands for.

    Parameters
    ----------
    connection
        Looks for the files, as only DuckDB knows what its patterns mean.
    query
        The statement.
    values
        Of its parameters.
    allowed
        Whether SQL may read local files.

    Raises
    ------
    InvalidInput
        When it may not; or when a file belongs to an instance of a warehouse.
    """
    for pattern in (*query.files, *_texts(values[name] for name in query.parameters if name in values)):
        found = _found(connection, pattern)
        if found and not allowed:
            hint = "set the instance property sleeper.sql.local.files to true to allow it"
            raise InvalidInput(f"SQL may not read local files here: {pattern!r}", hint=hint)
        for path in map(_absolute, (pattern, *found)):
            _check_outside(path)
            yield path


def _found(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    if "://" in pattern and not pattern.startswith("file:"):
        return []  # DuckDB would look for an extension that reads it
    return [name for (name,) in connection.execute("SELECT file FROM glob($p)", {"p": pattern}).fetchall()]


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def _absolute(path: str) -> str:
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    return path if "://" in path else os.path.abspath(Path(path).expanduser())  # noqa: PTH100 - keeps patterns


def _check_outside(path: str) -> None:
    """Refuse the files of an instance.

    A database beside SQLite that opens its file and closes it again takes SQLite's locks away from this process, and a
    data file alone is no version of a table.
    """
    for folder in Path(os.path.realpath(path)).parents:
        if (folder / CATALOG).is_file():
            hint = "read the table by its name, or a system table: flights$files"
            raise InvalidInput(f"SQL may not read {path!r}, a file of the instance in {folder}", hint=hint)
