"""The local files that a statement names, and whether SQL may read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sleeper_nb.engines.local_files import absolute, check_outside, refused

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
            raise refused(pattern)
        for path in map(absolute, (pattern, *found)):
            check_outside(path)
            yield path


def _found(connection: duckdb.DuckDBPyConnection, pattern: str) -> list[str]:
    if "://" in pattern and not pattern.startswith("file:"):
        return []  # DuckDB would look for an extension that reads it
    return [name for (name,) in connection.execute("SELECT file FROM glob($p)", {"p": pattern}).fetchall()]


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))
