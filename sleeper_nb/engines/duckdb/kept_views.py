"""Views over data files that the statements of one DuckDB share: to make one, DuckDB opens files that never change.

A statement gives each table a name, and the next one gives the same name to other rows. So each view is in a schema of
its own, and each statement has a connection with its schemas in the search path.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from sleeper_nb.engines.duckdb.exact_paths import exact_path
from sleeper_nb.engines.duckdb.interrupts import fetched
from sleeper_nb.engines.undisturbed import undisturbed
from sleeper_nb.model.sql_quotes import quoted_name, quoted_text

if TYPE_CHECKING:
    import duckdb

    from sleeper_nb.read.scan_plan import ScanPlan
    from sleeper_nb.storage.filesystem import Storage

SCHEMA_PREFIX: Final = "__sleeper_kept"
"""How the names of the schemas begin; no statement may have one."""
_MOST_VIEWS: Final = 256
_MOST_CHUNKS: Final = 200_000
"""How many column chunks the kept footers describe; DuckDB takes about 800 bytes for each."""
_BYTES_OF_CHUNK: Final = 2**16


@dataclass(frozen=True, slots=True)
class FilesView:
    """The rows of Parquet files as they are.

    Parameters
    ----------
    columns
        The columns that are read, in this order.
    paths
        The local files, as `exact_paths` has them.
    chunks
        About how many column chunks their footers describe (`chunks_of`).
    """

    columns: tuple[str, ...]
    paths: tuple[str, ...]
    chunks: int = field(compare=False)

    @classmethod
    def of(cls, plan: ScanPlan, storage: Storage) -> FilesView:
        """Return the files of a plan in a local folder, with the columns of its schema."""
        paths = tuple(exact_path(storage.locate(file)) for file in plan.filenames)
        return cls(plan.schema.names, paths, chunks_of(plan))

    @property
    def query(self) -> str:
        """The query of the view."""
        columns = ", ".join(map(quoted_name, self.columns))
        files = ", ".join(quoted_text(path) for path in self.paths)
        return f"SELECT {columns} FROM read_parquet([{files}], hive_partitioning = false)"  # noqa: S608 - literals


@dataclass(frozen=True, slots=True)
class RowlessView:
    """No row: what is left of a table whose files hold none that a statement needs.

    Parameters
    ----------
    columns
        The names of its columns, and their types in DuckDB.
    """

    columns: tuple[tuple[str, str], ...]
    paths: ClassVar[tuple[str, ...]] = ()
    chunks: ClassVar[int] = 0

    @property
    def query(self) -> str:
        """The query of the view: SQL, as DuckDB imports pandas before it reads Arrow."""
        columns = (f"CAST(NULL AS {kind}) AS {quoted_name(name)}" for name, kind in self.columns)
        return f"SELECT {', '.join(columns)} LIMIT 0"


View: TypeAlias = FilesView | RowlessView


def chunks_of(plan: ScanPlan) -> int:
    """Return about how many column chunks the footers of a plan's files describe: one of 64 KiB, or one a column."""
    return len(plan.schema.names) * len(plan.filenames) + plan.bytes // _BYTES_OF_CHUNK


def can_be_kept(plans: Iterable[ScanPlan]) -> bool:
    """Return whether the footers of all files that a statement reads can be kept in memory."""
    return sum(map(chunks_of, plans)) <= _MOST_CHUNKS


class KeptViews:
    """The views of one database.

    Parameters
    ----------
    database
        A connection to it.
    """

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database, self._lock = database, threading.Lock()
        self._schemas, self._paths, self._chunks = dict[tuple[str, View], str](), set[str](), 0.0

    @property
    def is_full(self) -> bool:
        """Whether it has so many views, or footers, that the next statement should begin with none."""
        return len(self._schemas) >= _MOST_VIEWS or self._chunks > _MOST_CHUNKS

    @undisturbed()
    def schema_of(self, name: str, view: View) -> str:
        """Return the schema in which a name is a view, made first if it is not there.

        Raises
        ------
        duckdb.Error
            When DuckDB cannot read the files.
        """
        with self._lock:
            schema = self._schemas.get((name, view))
            if schema is None:
                schema = f"{SCHEMA_PREFIX}_{len(self._schemas)}"
                fetched(self._database, f"CREATE SCHEMA IF NOT EXISTS {schema}")
                fetched(self._database, f"CREATE VIEW {schema}.{quoted_name(name)} AS {view.query}")
                self._schemas[name, view] = schema
                self._count(view)
            return schema

    @undisturbed()
    def of_statement(self) -> ViewsOfStatement:
        """Return the views of a statement that shares them with others, on a new connection."""
        return ViewsOfStatement(self._database.cursor(), self)

    def count(self, files: FilesView) -> None:
        """Count the footers of files that a statement reads without a view."""
        with self._lock:
            self._count(files)

    def _count(self, files: View) -> None:
        new = set(files.paths) - self._paths
        self._paths |= new
        self._chunks += files.chunks * len(new) / max(len(files.paths), 1)


class ViewsOfStatement:
    """The views that one statement has names for, on a connection of its own.

    Parameters
    ----------
    connection
        The connection, which no other statement has.
    kept
        Has the views, in schemas that it made; None for views of the connection itself.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, kept: KeptViews | None = None) -> None:
        self._connection, self._kept = connection, kept
        self._schemas, self._searched = tuple[str, ...](), tuple[str, ...]()

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection on which the statement runs; it knows the names that were given so far."""
        if self._searched != self._schemas:
            fetched(self._connection, f"SET SESSION search_path = '{','.join(self._schemas)}'")
            self._searched = self._schemas
        return self._connection

    def count(self, files: FilesView) -> None:
        """Count the footers of files that are read without a view."""
        if self._kept is not None:
            self._kept.count(files)

    def name(self, name: str, view: View) -> None:
        """Give a view a name that only later statements of this connection can read; errors as in DuckDB."""
        if self._kept is None:
            fetched(self.connection, f"CREATE OR REPLACE TEMP VIEW {quoted_name(name)} AS {view.query}")
        else:
            self._schemas += (self._kept.schema_of(name, view),)
