"""Add sorted Parquet files where they are: the table refers to them, without a copy, and never changes or deletes them.

Each file must be as a data file of the table is: its columns and their types, sorted by row keys and then sort keys,
without nulls where the table has none. The footer tells most of it; the order is proved by reading the key columns,
which also tells how many rows each leaf gets. Columns are read too if CHECKs name them, or if their type allows fewer
values than Parquet's: text that is UTF-8, UUIDs, structs. Unique keys are compared with the table's. Nothing is
committed unless every file fits.

A file in the folder of an instance or table is refused: clean-ups delete files there that the table does not own.

A file is recorded by its real address, its size, and a stamp: the time of its last change, or its ETag. A reader that
finds another size or stamp refuses the file (`sleeper_nb.read.read_rows.check_files`).

With `move`, local files get into the table's folder and are files as any other from then on. A file system can give one
file two names (a hard link), so nothing is copied, and a file is never without a name:

1. Each file gets a name in the table's folder, and its checksum is computed. It keeps its own name.
2. One commit adds the new names to the table. An error before it takes the new names away again.
3. The old names are deleted, each only if it still is the same file as the new one.

A sweep of orphans deletes files without a version that are older than a day. It spares files with two names; and before
a file loses its old name, its time of change becomes now.

A process that is killed before the commit leaves new names that no version has, as any load does; one that is killed
after it leaves old names, which the next run deletes: it recognises files that the table has (`moved_before`).
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sleeper_nb.errors import Action, Hint, InvalidInput, NotFound, OutcomeUnknown, StorageError, first_line
from sleeper_nb.load.casts import JUDGED, InexactValueError, exactly
from sleeper_nb.load.conform import Difference, RawColumns, column_of_parts, inexact, row_after
from sleeper_nb.load.ingest import discard_files, leaf_rows, references_to, rows_by_leaf
from sleeper_nb.load.load_options import EXACT
from sleeper_nb.load.load_report import AddFilesPlan, LoadReport, Refusal
from sleeper_nb.load.row_checks import (
    JudgedRows,
    OpenedChecks,
    RowCheck,
    UniqueKeysOfLoad,
    no_rows_judged,
    opened_checks,
)
from sleeper_nb.load.source_files import SourceFile, find_files
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.keys import OUT_OF_YEARS, first_and_last
from sleeper_nb.model.permissions import file_not_allowed
from sleeper_nb.model.schema import Field, Schema, is_utf8
from sleeper_nb.model.state import TableState
from sleeper_nb.model.statistics import ColumnStatistics, StatisticsColumns
from sleeper_nb.model.transactions import AddFiles
from sleeper_nb.progress import Progress
from sleeper_nb.report import counted
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage import paths
from sleeper_nb.storage.data_files import DataFile, SortedKeys
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.integrity import file_checksum
from sleeper_nb.storage.places import is_in_warehouse, lies_within, real_address

logger = logging.getLogger(__name__)

_COPY: Hint = ("copy its rows instead: ", Action("--copy", "copy=True"))
_LEAVE: Hint = ("leave it where it is: add it without ", Action("--move", "move=True"))


@dataclass(frozen=True, slots=True)
class MovingRules:
    """Which files can be moved into a table's folder.

    Parameters
    ----------
    users
        The names of tables that refer to files where they are, by address.
    """

    root: str
    users: Mapping[str, str]

    @classmethod
    def of(cls, stores: Mapping[str, StateStore], root: str, addresses: Iterable[str]) -> MovingRules:
        """Look up which tables, given by name, use some of the files in any version that they keep."""
        wanted, users = set(addresses), dict[str, str]()
        for name, store in stores.items():
            try:
                state = store.load()
            except NotFound:  # it was deleted meanwhile
                continue
            users |= dict.fromkeys(wanted - state.files.untracked(wanted), name)
        return cls(root, users)

    def problem(self, address: str, named: str) -> tuple[str, Hint] | None:
        """Return why a file cannot be moved, and what to do; None if it can. `named` is the address as it was given."""
        if "://" in address:
            return "is in a bucket, where files cannot be moved without a copy", _COPY
        if address in self.users:
            return f"is used by table {self.users[address]!r} where it is", "leave it there, as that table reads it"
        if Path(named).is_symlink():
            return f"was named by a link, {named}", "give the file itself"
        status, root = _status(address), _status(self.root)
        if status is not None and root is not None and status.st_dev != root.st_dev:
            return "is on another disk than the table", _COPY
        if not os.access(Path(address).parent, os.W_OK | os.X_OK):
            return "is in a folder from which you may not remove it", _LEAVE
        return None


def moved_before(state: TableState, storage: Storage, addresses: Iterable[str]) -> dict[str, str]:
    """Return the files that the table also has in its own folder, by their address, with their path there."""
    if not storage.local:
        return {}
    several = {_identity(status): each for each in addresses if (status := _status(each)) and status.st_nlink > 1}
    if not several:
        return {}
    known = state.files.table["filename"].to_pylist()
    names = {name for name in known if not paths.is_foreign(name)}
    own = {_identity(status): name for name in names if (status := _status(storage.locate(name)))}
    return {address: own[identity] for identity, address in several.items() if identity in own}


def _status(located: str) -> os.stat_result | None:
    try:
        return Path(located).stat()
    except OSError:  # reading the file says why
        return None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


@dataclass(frozen=True, slots=True)
class Moving:
    """Files that are being moved into a table's folder.

    Parameters
    ----------
    folder
        The id of the partition in whose folder they get their names.
    before
        The files that an earlier run moved, which still have their old names: their paths in the table's folder.
    names
        The path of each other file in the table's folder, by address, once it has one.
    checksums
        The checksums of these, by address.
    """

    store: StateStore
    folder: str
    before: Mapping[str, str]
    names: dict[str, str] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Take the new names away after an error, unless the commit has won or may have."""
        try:
            yield
        except OutcomeUnknown:
            raise
        except BaseException:
            discard_files(self.store, self.names.values())
            raise

    def linked(self, references: Iterable[FileReference]) -> tuple[FileReference, ...]:
        """Return references to files by their names in the table's folder, which they get when they have none yet."""
        return tuple(map(self._linked, references))

    def _linked(self, reference: FileReference) -> FileReference:
        address, storage = reference.filename, self.store.storage
        if address not in self.names:
            self.names[address] = paths.moved_file(self.folder, self.store.clock.new_id())
            storage.take(address, self.names[address])
            self.checksums[address] = file_checksum(storage, self.names[address])
            if storage.stamped(self.names[address]) != (reference.bytes, reference.checksum):
                raise InvalidInput(f"{address} was changed while it was added", hint="run it again")
        return replace(reference, filename=self.names[address], checksum=self.checksums[address])

    def release(self) -> list[str]:
        """Delete the old names of all files; return those that could not be deleted."""
        left = []
        for address, path in (*self.before.items(), *self.names.items()):
            try:
                self.store.storage.release(address, path)
            except StorageError as error:
                logger.warning("table %s: an added file keeps its old name: %s", self.store.table_id, error.message)
                left.append(address)
        return left


_BATCH_ROWS = 65_536
_LONGEST_ADDRESS = 700
"""Bytes: with a partition's id it is a key of DynamoDB, which has at most 1,024."""
_OF_A_TABLE = re.compile(r"/data/partition_[^/]+/|/[0-9a-f]{8}/(?:data|statestore|savepoint|schema)/", re.IGNORECASE)
_WILDCARDS = re.compile(r"[*?\[\]{}\\\x00-\x1f]")
_MOVED_BEFORE: Hint = ("to remove this other name of it: ", Action("--move", "move=True"))
_MOVE: Hint = ("move it out of the warehouse, or copy its rows: ", Action("--copy", "copy=True"))
_SORT: Hint = ("let the rows be sorted into files of the table: ", Action("--copy", "copy=True"))
_MOST_NAMED = 3
_JUDGED = ("string", *JUDGED, "decimal", "map")
"""Types that restrict the values of their columns in Parquet: by UTF-8, a form of texts, a range, or nulls inside."""

RowChecksOf = Callable[[Schema], Sequence[RowCheck]]
"""Returns the CHECKs of a schema, parsed and bound."""


@dataclass(frozen=True, slots=True)
class _Examined:
    """A file that can be added, the number of its rows in each leaf, and its broken expectations; or why it cannot."""

    address: str
    file: DataFile | None = None
    rows_by_leaf: Mapping[str, int] | None = None
    judged: JudgedRows = field(default_factory=JudgedRows)
    problem: str = ""
    hint: Hint = ""


class _RefusedError(Exception):
    def __init__(self, problem: str, hint: Hint) -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


def find_parquet(store: StateStore, sources: Sequence[str | Path]) -> dict[str, SourceFile]:
    """Return the files that some paths, folders, globs and addresses name, by their real addresses.

    Raises `NotFound` when one names no file; `InvalidInput` when a file is named twice: its rows would be in the table
    twice; `NotAllowed` when a file is outside the warehouse, in a folder that the user has not allowed.
    """
    found: dict[str, SourceFile] = {}
    for source in sources:
        for file in find_files(source, store.storage):
            address = real_address(file.address)
            if address in found:
                raise InvalidInput(f"file {file.address} is named twice", hint="name each file once")
            found[address] = file
    for address in found:
        if not store.storage.outside.has(address):
            raise file_not_allowed(address, store.storage.outside.instance)
    return found


def plan_files(
    store: StateStore,
    state: TableState,
    files: Mapping[str, SourceFile],
    statistics: StatisticsColumns,
    progress: Progress,
    row_checks: RowChecksOf = lambda _: (),
    moving: MovingRules | None = None,
) -> AddFilesPlan:
    """Return what adding files would do, without changing anything."""
    before = moved_before(state, store.storage, files) if moving is not None else {}
    files = {address: file for address, file in files.items() if address not in before}
    examined = _examine_all(store, state, files, statistics, progress, row_checks, moving)
    refused = _refusals(examined) or _taken_keys(store, state, examined)
    fitting = [each for each in examined if each.file is not None]
    by_leaf: Counter[str] = Counter()
    for each in fitting if not refused else ():
        by_leaf.update(each.rows_by_leaf)
    data_files = [each.file for each in fitting if each.file is not None]
    return AddFilesPlan(
        snapshot_id=state.snapshot_id,
        files=len(data_files),
        rows=sum(file.rows for file in data_files),
        bytes=sum(file.bytes for file in data_files),
        leaves=leaf_rows(state, by_leaf),
        refused=refused,
        empty=sum(each.file is None and not each.problem for each in examined),
        notes=_judged(fitting).notes,
        moves=moving is not None,
        moved_before=len(before),
    )


def add_files(
    store: StateStore,
    files: Mapping[str, SourceFile],
    statistics: StatisticsColumns,
    progress: Progress,
    *,
    message: str | None = None,
    author: str | None = None,
    job_id: str | None = None,
    row_checks: RowChecksOf = lambda _: (),
    rules: MovingRules | None = None,
) -> LoadReport:
    """Refer to files in one commit.

    Parameters
    ----------
    progress
        Callback that receives how many files were examined, and which could not be removed from where they were.
    rules
        Which files can be moved, to move them into the table's folder; None leaves them where they are.

    Raises
    ------
    InvalidInput
        When a file cannot be a data file of the table, or breaks a rule of it; nothing was added.
    AlreadyExists
        When the table has one of the files; nothing was added.
    """
    head, state = store.current()
    moving = None
    if rules is not None:
        moving = Moving(store, state.tree.root.id, moved_before(state, store.storage, files))
        files = {address: file for address, file in files.items() if address not in moving.before}

    judged = JudgedRows()

    def addition(state: TableState) -> tuple[AddFiles, UniqueKeysOfLoad]:
        nonlocal judged
        examined = _examine_all(store, state, files, statistics, progress, row_checks, rules)
        references, judged = _references(examined, len(files)), _judged(examined)
        change = AddFiles(moving.linked(references) if moving is not None else references)
        return change, UniqueKeysOfLoad(store.storage, store.clock, change)

    with moving.undo_on_error() if moving is not None else nullcontext():
        added, unique = addition(state)

        def change(newest: TableState) -> AddFiles:
            nonlocal state, added, unique
            if newest.tree != state.tree or newest.schema != state.schema:  # it was split or altered in the meantime
                added, unique = addition(newest)
                state = newest
            unique.check(newest)
            return added

        report = LoadReport.of_no_rows(head)
        if added.references:
            unique.check(state)
            made = store.commit(change, message=message, author=author, job_id=job_id, expectations=judged.text)
            report = LoadReport.of(made).noted(*judged.notes)
    if moving is not None and (left := moving.release()):
        progress.finish(f"{counted(len(left), 'file')} could not be removed from the old place, such as {left[0]}")
    logger.info("table %s: added %d files without a copy", store.table_id, len(files))
    return report


def _judged(examined: Iterable[_Examined]) -> JudgedRows:
    return reduce(JudgedRows.plus, (each.judged for each in examined), JudgedRows())


def _references(examined: Sequence[_Examined], given: int) -> tuple[FileReference, ...]:
    refused = _refusals(examined)
    if refused:
        count = sum(len(each.files) for each in refused)
        texts = [each.text for each in refused[:_MOST_NAMED]]
        if len(refused) > _MOST_NAMED:
            texts.append(f"and {len(refused) - _MOST_NAMED} other differences")
        which = "the file" if given == 1 else f"{count:,} of {given:,} files"
        raise InvalidInput(f"{which} cannot be added, so none was: {'; '.join(texts)}", hint=refused[0].hint)
    return _references_of(examined)


def _references_of(examined: Sequence[_Examined]) -> tuple[FileReference, ...]:
    return tuple(
        reference
        for each in examined
        if each.file is not None and each.rows_by_leaf is not None
        for reference in references_to(each.file, each.rows_by_leaf)
    )


def _taken_keys(store: StateStore, state: TableState, examined: Sequence[_Examined]) -> tuple[Refusal, ...]:
    """Return a row key that files, or one of them and the table, have twice, where row keys are unique."""
    references = _references_of(examined)
    taken = UniqueKeysOfLoad(store.storage, store.clock, AddFiles(references)).taken(state) if references else None
    if taken is None:
        return ()
    addresses = {each.file.filename: each.address for each in examined if each.file is not None}
    return (Refusal(taken.problem, taken.hint, tuple(addresses[name] for name in taken.filenames)),)


def _refusals(examined: Sequence[_Examined]) -> tuple[Refusal, ...]:
    """Return the problems, each with its files; those of most files first."""
    groups: dict[tuple[str, Hint], list[str]] = defaultdict(list)
    for each in examined:
        if each.problem:
            groups[each.problem, each.hint].append(each.address)
    found = [Refusal(problem, hint, tuple(names)) for (problem, hint), names in groups.items()]
    return tuple(sorted(found, key=lambda each: -len(each.files)))


def _examine_all(
    store: StateStore,
    state: TableState,
    files: Mapping[str, SourceFile],
    statistics: StatisticsColumns,
    progress: Progress,
    row_checks: RowChecksOf,
    moving: MovingRules | None,
) -> list[_Examined]:
    had = moved_before(state, store.storage, files) if moving is None else {}
    examiner = _Examiner(store.storage, state, statistics, row_checks(state.schema), moving, had)
    examined = []
    with ThreadPoolExecutor(store.storage.at_once) as pool:
        for i, each in enumerate(pool.map(examiner.examine, files, files.values())):
            if not i % 100:
                progress.update("examining files", i, len(files))
            examined.append(each)
    return examined


class _Examiner:
    """Compares files with a version of a table.

    Parameters
    ----------
    moving
        Which files can be moved; None when they stay where they are.
    moved_before
        The files that the table has in its own folder by another name.
    """

    def __init__(
        self,
        storage: Storage,
        state: TableState,
        statistics: StatisticsColumns,
        checks: Sequence[RowCheck],
        moving: MovingRules | None,
        moved_before: Container[str],
    ) -> None:
        self._moving, self._moved_before = moving, moved_before
        self._schema, self._tree, self._checks = state.schema, state.tree, checks
        self._owned = [folder for folder in (storage.outside.instance, storage.root) if folder]
        self._is_cleaned: dict[str, bool] = {}  # by folder: most files are in a few
        used = {name for each in checks for name in each.broken.columns}
        self._in_checks = [each for each in state.schema.fields if each.name in used]
        self._fields = state.schema.in_files.fields
        self._expected = [(each.name, _plain(each.type.arrow)) for each in state.schema.fields]
        self._names, self._types = map(list, zip(*self._expected, strict=True))
        self._renamed = {each.name: each.column for each in state.schema.fields if each.stored}
        self._judged = {each.column: each for each in state.schema.fields if each.type.holds(*_JUDGED)}
        self._in_time = [each for each in state.schema.row_keys if first_and_last(each.type.name) is not None]
        # a file without a column has NULL there, which must be what a load would store
        self._late = {f.name for f in state.schema.fields if f.late and f.nullable and f.default is None}
        self._keys = pa.schema([pa.field(each.name, each.type.arrow) for each in state.schema.fields
                                if each.name in state.schema.sort_order])  # fmt: skip
        self._with_statistics = {
            each.column: each.type.name for each in statistics.fields(state.schema) if each.type.name in _WHOLE_NUMBERS
        }

    def examine(self, address: str, file: SourceFile) -> _Examined:
        try:
            self._check_place(address)
            _check_address(address)
            self._check_names_of(address, file)
            return self._examine(file, address)
        except _RefusedError as refused:
            return _Examined(address, problem=refused.problem, hint=refused.hint)
        except NotFound:
            return _Examined(address, problem="was deleted", hint="list files that stay in place")
        except (pa.ArrowException, OSError, ValueError) as error:
            problem = f"cannot be read as Parquet: {first_line(error)}"
            return _Examined(address, problem=problem, hint="give Parquet files only")

    def _examine(self, file: SourceFile, address: str) -> _Examined:
        size, stamp = file.storage.stamped(file.path)
        # prefetching hands each read to another thread, which takes longer than reading a local file
        in_advance = not file.storage.local
        with file.storage.input(file.path) as stream, pq.ParquetFile(stream, pre_buffer=in_advance) as opened:
            columns, metadata = opened.schema_arrow, opened.metadata  # each is made anew whenever it is asked for
            self._check_columns(columns)
            _check_bytes(metadata.schema)
            self._check_folders(file, columns)
            if not metadata.num_rows:
                return _Examined(address)
            with_nulls, with_nan = self._uncertain(columns, metadata)
            with opened_checks(self._checks) as checks:
                keys, by_leaf, judged = self._read(opened, columns, with_nulls, with_nan, checks)
            if keys.rows != metadata.num_rows:
                problem = f"has {keys.rows:,} rows; its footer says {metadata.num_rows:,}"
                raise _RefusedError(problem, "write it again")
            ends = tuple(keys.least), tuple(keys.greatest)
            known = tuple(self._statistics(columns, metadata))
        judged = JudgedRows(
            judged.conditions, {of: replace(each, source=address) for of, each in judged.broken.items()}
        )
        return _Examined(address, DataFile(address, keys.rows, size, *ends, stamp, known), by_leaf, judged)

    def _check_place(self, address: str) -> None:
        folder = address.rpartition("/")[0]
        if folder not in self._is_cleaned:
            is_owned = any(lies_within(address, owned) for owned in self._owned)
            self._is_cleaned[folder] = is_owned or is_in_warehouse(address)
        if self._is_cleaned[folder]:
            raise _RefusedError("is in the folder of a warehouse, whose clean-ups may delete it", _MOVE)

    def _check_names_of(self, address: str, file: SourceFile) -> None:
        if address in self._moved_before:
            raise _RefusedError("is in the table already: it was moved there, and has two names", _MOVED_BEFORE)
        problem = self._moving and self._moving.problem(address, file.address)
        if problem:
            raise _RefusedError(*problem)

    def _check_folders(self, file: SourceFile, found: pa.Schema) -> None:
        """Raise for a folder such as ``year=2013`` that gives a column its value: engines read the column as NULL."""
        known = {each.name.casefold() for each in self._schema.fields} - {name.casefold() for name in found.names}
        for value in file.folder_values:
            if value.name.casefold() in known:
                raise _RefusedError(f"has column {value.name!r} only in the name of a folder, {value.name}=…", _COPY)

    def _check_columns(self, found: pa.Schema) -> None:
        self._check_names(found)
        for name in found.names:
            if name in self._renamed:
                other = self._renamed[name]
                problem = f"has column {name!r}, which was renamed or added again: data files call it {other!r}"
                raise _RefusedError(problem, _COPY)

    def _check_names(self, found: pa.Schema) -> None:
        """Raise unless a file has the columns of the table, by their current names."""
        if found.names == self._names and found.types == self._types:
            return
        names, types = found.names, [_plain(kind) for kind in found.types]
        wanted = [each for each in self._expected if each[0] in names or each[0] not in self._late]
        if list(zip(names, types, strict=True)) == wanted:
            return
        for name, kind in wanted:
            if name not in names:
                raise _RefusedError(f"has no column {name!r}", _COPY)
            if names.count(name) > 1:
                raise _RefusedError(f"has two columns {name!r}", "write the file with one of them")
            if (it := found.field(name).type) != kind and _plain(it) != kind:
                raise _RefusedError(f"has {it} in column {name!r}, not {kind}", _COPY)
        extra = [name for name in names if name not in dict(wanted)]
        if extra:
            raise _RefusedError(f"has column {extra[0]!r}, which the table does not have", _COPY)
        order = ", ".join(name for name, _ in wanted)
        raise _RefusedError(f"has its columns in another order than the table: {order}", _COPY)

    def _uncertain(self, columns: pa.Schema, metadata: pq.FileMetaData) -> tuple[set[str], set[str]]:
        """Return the columns whose values must be read: those that may have nulls they must not have, and NaN.

        Raises for nulls that the footer counts.
        """
        nullable = {each.name for each in columns if each.nullable}
        strict = {each.column for each in self._fields if not each.nullable} & nullable
        with_nulls, with_nan = set[str](), set[str]()
        for column in _column_chunks(metadata):
            path, is_float = column.path_in_schema, column.physical_type in _FLOATS
            name = path.partition(".")[0]
            known = column.statistics if is_float or name in strict else None
            if name in strict and (known is None or not known.has_null_count or path != name):
                with_nulls.add(name)
            elif name in strict and known is not None and known.null_count:
                raise _null_refused(name)
            if is_float and known is not None and known.has_min_max:
                with_nan.add(name)
        return with_nulls, with_nan

    def _read(
        self,
        opened: pq.ParquetFile,
        found: pa.Schema,
        with_nulls: set[str],
        with_nan: set[str],
        checks: OpenedChecks,
    ) -> tuple[SortedKeys, dict[str, int], JudgedRows]:
        """Return the ends of the row keys, the rows of each leaf, and the expectations that rows break.

        Raises for rows that the table cannot have.
        """
        keys, by_leaf, judged = SortedKeys(self._schema), Counter[str](), no_rows_judged(self._checks)
        wanted = {*self._keys.names, *with_nulls, *with_nan, *self._judged, *(each.column for each in self._in_checks)}
        columns = [name for name in found.names if name in wanted]
        for batch in opened.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            for name in columns:
                if batch[name].null_count and (name in with_nulls or name in self._keys.names):
                    raise _null_refused(name)
                if name in with_nan and _has_nan(batch[name]):
                    # engines prune row groups by statistics, which other writers make without NaN
                    raise _RefusedError(f"has NaN in column {name!r}, which the file's statistics leave out", _COPY)
            table = pa.Table.from_batches([batch.select(self._keys.names)]).cast(self._keys)
            self._check_values(batch, keys.rows)
            before = keys.rows
            self._check_keys(table, keys)
            judged = judged.plus(self._check_rows(batch, checks, before))
            by_leaf.update(rows_by_leaf(table, self._tree, self._schema))
        return keys, dict(by_leaf), judged

    def _check_values(self, batch: pa.RecordBatch, before: int) -> None:
        """Raise for values that the Arrow type of their column allows, and the table's type does not, as loads do."""
        for name in batch.schema.names:
            if name in self._judged:
                _check_column(batch[name], self._judged[name], before)

    def _check_keys(self, table: pa.Table, before: SortedKeys) -> None:
        for each in self._in_time:
            raw = RawColumns((), {each.name: table[each.name]}, table.num_rows, place=partial(row_after, before.rows))
            column = column_of_parts([raw], each, EXACT, is_row_key=True)
            if isinstance(column, Difference):
                raise _RefusedError(f"does not fit: {column.problem}", OUT_OF_YEARS)
        before.see(table)
        if not before.in_order:
            raise _RefusedError(f"is not sorted by {', '.join(self._schema.sort_order)}", _SORT)

    def _check_rows(self, batch: pa.RecordBatch, checks: OpenedChecks, before: int) -> JudgedRows:
        """Return how many rows of a batch break each expectation; raise for rows that a rule refuses."""
        if not checks.filters:
            return JudgedRows()
        columns = [
            batch[each.column].cast(each.type.arrow)
            if each.column in batch.schema.names
            else pa.nulls(batch.num_rows, each.type.arrow)
            for each in self._in_checks
        ]
        names = [each.name for each in self._in_checks]
        rows = pa.table(columns, names=names)
        for broken in checks.differences(rows):
            raise _RefusedError(f"breaks {broken.column}: {broken.kind}", broken.hint)
        return checks.judged(rows, partial(row_after, before))

    def _statistics(self, columns: pa.Schema, metadata: pq.FileMetaData) -> Iterator[ColumnStatistics]:
        """Yield the statistics of the columns of whole numbers and times, as the footer has them for all rows."""
        known = {name: ColumnStatistics(name, kind, None, None, 0) for name, kind in self._with_statistics.items()}
        for column in _column_chunks(metadata) if known else ():
            name = column.path_in_schema
            if name not in known:
                continue
            found = column.statistics
            all_null = found is not None and found.has_null_count and found.null_count == column.num_values
            if found is None or not found.has_null_count or not (found.has_min_max or all_null):
                del known[name]
                continue
            before = known[name]
            low, high = (found.min_raw, found.max_raw) if found.has_min_max else (None, None)
            least = min((v for v in (before.least, low) if v is not None), default=None)
            greatest = max((v for v in (before.greatest, high) if v is not None), default=None)
            known[name] = replace(before, least=least, greatest=greatest, nulls=before.nulls + found.null_count)
        present = set(columns.names)
        yield from (each for name, each in known.items() if name in present and each.nulls < 2**31)


_WHOLE_NUMBERS = frozenset({"int", "long", "date", "timestamp"})
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_BYTES = frozenset({"NONE", "STRING", "DECIMAL"})
"""The logical types of byte arrays that all engines read alike, as what the table has."""


def _column_chunks(metadata: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        yield from map(group.column, range(group.num_columns))


def _check_column(values: pa.Array, of: Field, before: int) -> None:
    """Raise for a value that a load would refuse or change; `before` is the number of rows before these."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        if not is_utf8(values) and "utf" in str(error).casefold():
            problem = f"has text that is not UTF-8 in column {of.name!r}"
            raise _RefusedError(problem, "write the file again, as UTF-8") from error
        problem = f"has a value in column {of.name!r} that no {of.type} is: {error}"
        raise _RefusedError(problem, "write the file again, with values of the type") from error
    try:
        loaded = exactly(values, of.type)
    except InexactValueError as error:
        problem = inexact(error, of, row_after(before, error.index or 0)).problem
        raise _RefusedError(f"does not fit: {problem}", error.hint) from error
    if of.type.holds("uuid") and not loaded.equals(values.cast(of.type.arrow)):
        problem = f"has UUIDs in column {of.name!r} that are not written in lower case, with hyphens"
        raise _RefusedError(problem, _COPY)


def _check_bytes(columns: pq.ParquetSchema) -> None:
    """Raise for bytes that engines read as values of another type, such as GEOMETRY, and then as other bytes."""
    for each in map(columns.column, range(len(columns))):
        if each.physical_type == "BYTE_ARRAY" and each.logical_type.type not in _BYTES:
            name, kind = each.path.partition(".")[0], each.logical_type.type
            raise _RefusedError(f"has {kind} in column {name!r}, which engines do not read as its bytes", _COPY)


def _null_refused(name: str) -> _RefusedError:
    return _RefusedError(f"has nulls in column {name!r}, which cannot be null", "write the file without them")


def _has_nan(values: pa.Array) -> bool:
    if pa.types.is_floating(values.type):
        return bool(pc.any(pc.is_nan(values)).as_py())
    if pa.types.is_nested(values.type):
        parts: Sequence[pa.Array] = values.flatten() if pa.types.is_struct(values.type) else [values.flatten()]
        return any(map(_has_nan, parts))
    return False


def _check_address(address: str) -> None:
    name = address.rpartition("/")[2]
    if _OF_A_TABLE.search(address):
        raise _RefusedError("looks like a file of a table, which may delete it", _MOVE)
    if _WILDCARDS.search(address):
        raise _RefusedError("has a character in its path that engines read as a wildcard", _COPY)
    if name.startswith(("_", ".")):
        raise _RefusedError(
            "has a name that begins with _ or ., which Spark leaves out",
            ("rename it, or ", Action("--copy", "copy=True"), " copies its rows"),
        )
    if len(address.encode()) > _LONGEST_ADDRESS:
        raise _RefusedError(f"has a path of more than {_LONGEST_ADDRESS} bytes", _COPY)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without what only Arrow distinguishes, and what is not in the bytes of a Parquet file."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.tz:  # the zone is of Arrow; the values are in UTC
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    return kind
