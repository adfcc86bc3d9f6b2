"""A statement in which each local file that it names has a name that DuckDB reads as a load does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import duckdb

from sleeper_nb.engines.duckdb.arrow_stream import ArrowStream
from sleeper_nb.engines.duckdb.duckdb_reads import Query
from sleeper_nb.engines.duckdb.relations import name_rows, query
from sleeper_nb.sql.binding import Bound

FileRows: TypeAlias = str | ArrowStream
"""A query, or rows."""


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """A statement that reads each line of the files that it names.

    Parameters
    ----------
    bound
        The statement and its views, with generated names in place of files.
    rows
        What each generated name stands for: the query that reads the files, or their rows as our reader has them.
    notes
        What is said of files that are left out.
    """

    bound: Bound
    rows: Mapping[str, FileRows] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, bound: Bound, allowed: Collection[str]) -> ReadableFiles:
        """Return a statement in which files are read as a load reads them.

        Parameters
        ----------
        bound
            The statement.
        allowed
            The absolute paths of the files that it may read; no other one is opened.

        Raises
        ------
        InvalidInput
            When a load would refuse the columns of a file, or files of a glob belong to a table in a lake format.
        NotFound
            When a glob matches no file.
        """
        if not allowed:
            return cls(bound)
        from sleeper_nb.engines.duckdb.files_in_sql import NamedFiles  # few statements name a file

        names = NamedFiles(bound.unused_mark, allowed)
        readable = names.readable(bound)
        return cls(readable, names.rows, tuple(dict.fromkeys(filter(None, names.notes))))

    def name(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Give the rows their names on a connection."""
        for name, rows in self.rows.items():
            name_rows(connection, name, query(connection, Query(rows, rows)) if isinstance(rows, str) else rows)
