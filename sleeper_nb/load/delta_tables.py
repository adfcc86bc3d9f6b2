"""Delta tables as sources: read by deltalake's scan, which applies deletion vectors and the mapping of columns.

Its data sets refuse both, and its counts ignore deleted rows, so nothing else of it is asked for rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput, NotFound, NotInstalled, SleeperError, StorageError, first_line
from sleeper_nb.model.sql_values import quoted_name, quoted_text
from sleeper_nb.read.predicate import ALWAYS_TRUE, And, Comparison, IsIn, IsNull, Predicate
from sleeper_nb.storage.filesystem import Storage

_UNDERSTOOD: Final = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"})
"""The reader features of which the scan gives the right rows; each is tried in a test."""
_NOT_UNDERSTOOD: Final = ("Unsupported", "catalog-managed", "reader features")
"""What deltalake says of a table that it does not understand."""
_LOG: Final = "_delta_log"


@dataclass(frozen=True, slots=True)
class DeltaReader:
    """A Delta table at one version.

    Parameters
    ----------
    storage
        The table's folder.
    bytes
        Of its data files.
    """

    storage: Storage
    version: int
    schema: pa.Schema
    bytes: int
    title: ClassVar[str] = "Delta"

    @classmethod
    def of(cls, folder: Storage, wanted: str | None) -> DeltaReader:
        """Open a table at a version, the newest when None.

        Raises
        ------
        NotFound
            When the folder is no Delta table, or has no such version.
        InvalidInput
            When the version is no number, or the table needs what its reader does not understand.
        NotInstalled
            When deltalake is missing.
        """
        if wanted is not None and not wanted.isdecimal():
            raise InvalidInput(f"{wanted!r} is no version of a Delta table", hint="write its number: delta:PATH@12")
        if folder.local and _LOG not in folder.folders():
            raise NotFound(f"no Delta table at {folder.root}", hint=f"give the folder that has a folder {_LOG}")
        table = _opened(folder, None if wanted is None else int(wanted))
        with _errors(folder.root):
            _check_features(folder, table.protocol())
            schema = pa.schema(table.schema().to_arrow())
            sizes = pa.table(table.get_add_actions())["size_bytes"]
            return cls(folder, table.version(), schema, pc.sum(sizes).as_py() or 0)

    def parts(self, predicate: Predicate = ALWAYS_TRUE) -> tuple[None]:  # noqa: ARG002 - as of other readers
        """Return what is read apart: the whole, as the scan does not say which files it reads."""
        return (None,)

    def batches(
        self,
        part: None,  # noqa: ARG002 - as of other readers
        columns: Sequence[str] | None = None,
        predicate: Predicate = ALWAYS_TRUE,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that meet a predicate, in any order."""
        names = self.schema.names if columns is None else list(columns)
        wanted = pa.schema([self.schema.field(name) for name in names])
        with _errors(self.storage.root):
            scan = _opened(self.storage, self.version).scan(columns=names, predicate=_condition(predicate))
            with pa.RecordBatchReader.from_stream(scan) as reader:
                for batch in reader:
                    yield batch.cast(wanted)


def _opened(folder: Storage, version: int | None) -> Any:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise NotInstalled.of(f"reading the Delta table {folder.root}", "delta") from error
    try:
        return DeltaTable(folder.root, version=version, storage_options=_options(folder))
    except (DeltaError, OSError) as error:
        if version is not None:
            newest = _opened(folder, None).version()
            if version > newest:
                problem = f"the Delta table {folder.root} has no version {version}"
                raise NotFound(problem, hint=f"its newest is {newest}") from error
        if any(word in str(error) for word in _NOT_UNDERSTOOD):
            raise _refused(folder, first_line(error)) from error
        hint = "check the address; an old version may have been removed from the table's log"
        raise StorageError(f"cannot read the Delta table {folder.root}: {first_line(error)}", hint=hint) from error


def _options(folder: Storage) -> dict[str, str] | None:
    """Return what opens a table in a bucket; None for a local folder."""
    if (access := folder.access) is None:
        return None
    options = {
        "AWS_ACCESS_KEY_ID": access.access_key,
        "AWS_SECRET_ACCESS_KEY": access.secret_key,
        "AWS_SESSION_TOKEN": access.session_token,
        "AWS_REGION": access.region,
        "AWS_ENDPOINT_URL": access.endpoint_url,
        "AWS_ALLOW_HTTP": "true" if (access.endpoint_url or "").startswith("http:") else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _check_features(folder: Storage, protocol: Any) -> None:
    if unknown := sorted(set(protocol.reader_features or ()) - _UNDERSTOOD):
        raise _refused(folder, ", ".join(unknown))


def _refused(folder: Storage, features: str) -> InvalidInput:
    return InvalidInput(
        f"the Delta table {folder.root} needs reader features that are not understood: {features}",
        hint="read it with the engine that wrote it, and load the result",
    )


@contextmanager
def _errors(root: str) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except SleeperError:
        raise
    except (DeltaError, pa.ArrowException, OSError, ValueError, TypeError) as error:
        hint = "VACUUM may have removed files of this version: read a newer one"
        raise StorageError(f"cannot read the Delta table {root}: {first_line(error)}", hint=hint) from error


def _condition(predicate: Predicate) -> str | None:
    """Return a predicate in the SQL of the scan; None of one that every row meets."""
    return None if predicate == ALWAYS_TRUE else _sql(predicate)


def _sql(predicate: Predicate) -> str:
    if isinstance(predicate, Comparison):
        return f"{quoted_name(predicate.column)} {predicate.operator} {_literal(predicate.value)}"
    if isinstance(predicate, IsIn):
        return f"{quoted_name(predicate.column)} IN ({', '.join(map(_literal, predicate.values))})"
    if isinstance(predicate, IsNull):
        return f"{quoted_name(predicate.column)} IS NULL"
    word, none = (" AND ", "true") if isinstance(predicate, And) else (" OR ", "false")
    return f"({word.join(map(_sql, predicate.parts)) or none})"


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP {quoted_text(value.isoformat())}"
    if isinstance(value, date):
        return f"DATE {quoted_text(value.isoformat())}"
    return quoted_text(value) if isinstance(value, str) else str(value)
