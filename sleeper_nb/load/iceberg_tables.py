"""Iceberg tables as sources: planned by PyIceberg, and read here, a batch at a time with deleted rows left out.

PyIceberg's own reader holds all rows of a table that has deletes. Columns are found by their field ids, as the
specification says (section "Column Projection"); those of a file without ids by the table's mapping of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound, NotInstalled, SleeperError, StorageError, first_line
from sleeper_nb.read.predicate import ALWAYS_TRUE, Predicate
from sleeper_nb.storage.filesystem import Storage, open_near, open_parent

if TYPE_CHECKING:
    from sleeper_nb.load.iceberg_files import StoredColumns

_METADATA: Final = "metadata"
_JSON: Final = re.compile(r"v?(?P<number>\d+)(-[^/]+)?(\.gz)?\.metadata\.json(\.gz)?")
"""How the files are named that have the metadata: ``v3.…`` in a folder, ``00003-<uuid>.…`` by a catalog."""


@dataclass(frozen=True, slots=True)
class IcebergFile:
    """A data file of a table, and what to leave out of it.

    Parameters
    ----------
    deletes
        The addresses of the files that have the positions of deleted rows.
    constants
        The values that the file's partition gives to columns, by field id; for files that lack these.
    """

    address: str
    bytes: int
    deletes: tuple[str, ...] = ()
    constants: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IcebergReader:
    """An Iceberg table at one snapshot.

    Parameters
    ----------
    storage
        The folder of the metadata, by whose connection files in buckets are opened.
    metadata
        The address of the file with the table's metadata.
    snapshot
        The id of the snapshot; None of a table without rows.
    columns
        The schema of that snapshot, and how its columns are found in files.
    files
        All data files of the snapshot.
    """

    storage: Storage
    metadata: str
    snapshot: int | None
    schema: pa.Schema
    columns: StoredColumns
    files: tuple[IcebergFile, ...]
    title: ClassVar[str] = "Iceberg"

    @classmethod
    def of(cls, address: str, home: Storage | None, wanted: str | None) -> IcebergReader:
        """Open a table at a tag, branch or snapshot id; at its current snapshot when None.

        Parameters
        ----------
        address
            The table's folder, or the file with its metadata.

        Raises
        ------
        NotFound
            When there is no Iceberg table, or no such snapshot.
        InvalidInput
            When the newest metadata is not known, or the table has what its reader does not understand.
        NotInstalled
            When PyIceberg is missing.
        """
        metadata = address if address.endswith((".metadata.json", ".metadata.json.gz")) else newest(address, home)
        home = open_parent(metadata, home)[0]
        table = _table(metadata, home)
        with _errors(address):
            from sleeper_nb.load.iceberg_files import StoredColumns

            snapshot = _snapshot(table.metadata, wanted, address)
            scan = table.scan(snapshot_id=None if wanted is None else snapshot)
            columns = StoredColumns.of(scan.projection(), table.metadata)
            return cls(home, metadata, snapshot, columns.arrow, columns, tuple(_files(table, scan)))

    @property
    def version(self) -> int:
        """The id of the snapshot; 0 of a table without rows."""
        return self.snapshot or 0

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def parts(self, predicate: Predicate = ALWAYS_TRUE) -> tuple[IcebergFile, ...]:
        """Return the data files in which rows may meet a predicate."""
        if predicate == ALWAYS_TRUE or self.snapshot is None:
            return self.files
        with _errors(self.metadata):
            from sleeper_nb.load.iceberg_files import condition

            table = _table(self.metadata, self.storage)
            known = condition(predicate, self.columns, table.schema())
            return tuple(_files(table, table.scan(known, snapshot_id=self.snapshot)))

    def batches(
        self,
        part: IcebergFile,
        columns: Sequence[str] | None = None,
        predicate: Predicate = ALWAYS_TRUE,  # noqa: ARG002 - files are chosen by it
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a data file; also such as do not meet the predicate."""
        from sleeper_nb.load.iceberg_files import rows_of

        with _errors(part.address):
            yield from rows_of(part, self.columns, self.schema.names if columns is None else columns, self.storage)


def newest(address: str, home: Storage | None) -> str:
    """Return the newest file with the metadata of the table in a folder."""
    folder = open_near(address, home)
    none = NotFound(
        f"no Iceberg table at {folder.root}",
        hint="give the folder that has a folder metadata, or the .metadata.json file itself",
    )
    if _METADATA not in folder.folders():
        raise none
    hint = f"{_METADATA}/version-hint.text"
    hinted = folder.read(hint).decode(errors="replace").strip() if folder.has(hint) else None
    # Listed after the hint is read, which may name metadata that were written meanwhile.
    listed = [each.path for each in folder.list(_METADATA) if each.path.count("/") == 1]
    found = {path: match for path in listed if (match := _JSON.fullmatch(_name(path)))}
    if not found:
        raise none
    last = max(int(match["number"]) for match in found.values())
    newest_ones = sorted(path for path, match in found.items() if int(match["number"]) == last)
    named = newest_ones if hinted is None else [path for path in found if _is_named(_name(path), hinted)]
    if len(named) == 1:
        return folder.locate(named[0])
    problem = f"{folder.root} has {len(named)} files with its newest metadata"
    if not named:
        problem = f"version-hint.text of {folder.root} names {hinted!r}, and there is no such metadata"
    raise InvalidInput(problem, hint=f"name the right one: iceberg:{folder.locate((named or newest_ones)[0])}")


def _is_named(name: str, hint: str) -> bool:
    """Return whether a file is the one of a hint: a number of a version, or the file's name with or without its end."""
    return name in {hint, f"{hint}.metadata.json"} or (hint.isdecimal() and name.startswith(f"v{hint}."))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _table(metadata: str, home: Storage) -> Any:
    try:
        from sleeper_nb.load.iceberg_files import opened
    except ImportError as error:
        raise NotInstalled.of(f"reading the Iceberg table {metadata}", "iceberg") from error
    with _errors(metadata):
        return opened(metadata, home)


def _snapshot(metadata: Any, wanted: str | None, address: str) -> int | None:
    """Return the id of the snapshot of a name or number; the current one, if any, when None."""
    if wanted is None:
        current = metadata.current_snapshot()
        return None if current is None else int(current.snapshot_id)
    if wanted in metadata.refs:
        return int(metadata.refs[wanted].snapshot_id)
    ids = [each.snapshot_id for each in metadata.snapshots]
    if wanted.isdecimal() and int(wanted) in ids:
        return int(wanted)
    raise NotFound.of("tag, branch or snapshot", wanted, [*metadata.refs, *ids], where=f" of {address}")


def _files(table: Any, scan: Any) -> Iterator[IcebergFile]:
    from pyiceberg.transforms import IdentityTransform

    specs = table.specs()
    for task in scan.plan_files():
        for each in (task.file, *task.delete_files):
            _check_format(each)
        spec = specs[task.file.spec_id]
        constants = {
            of.source_id: task.file.partition[at]
            for at, of in enumerate(spec.fields)
            if isinstance(of.transform, IdentityTransform)
        }
        deletes = tuple(sorted(each.file_path for each in task.delete_files))
        yield IcebergFile(task.file.file_path, task.file.file_size_in_bytes, deletes, constants)


def _check_format(file: Any) -> None:
    if file.file_format.value not in {"PARQUET", "PUFFIN"}:
        problem = f"{file.file_path} is a file of {file.file_format.value}, which is not read"
        raise InvalidInput(problem, hint="rewrite the table's files as Parquet, with the engine that wrote it")


@contextmanager
def _errors(address: str) -> Iterator[None]:
    try:
        yield
    except SleeperError:
        raise
    except Exception as error:  # PyIceberg has many, several of them ValueError
        if "equality deletes" in str(error):
            raise InvalidInput(
                f"{address} has equality deletes, which are not read",
                hint="compact it with the engine that wrote it, such as CALL system.rewrite_data_files of Spark",
            ) from error
        hint = "check the address; or read it with the engine that wrote it, and load the result"
        raise StorageError(f"cannot read the Iceberg table {address}: {first_line(error)}", hint=hint) from error
