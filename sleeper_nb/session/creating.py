"""Create a table: empty, or with the rows, the schema and the partitions that data gives, in one commit."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from sleeper_nb.admin.alter import SchemaCommit
from sleeper_nb.admin.create_plan import CreatePlan, SplitPointsEstimate
from sleeper_nb.admin.property_files import check_changes
from sleeper_nb.catalog.catalog_base import TABLE_ID_DIGITS
from sleeper_nb.engines.components import OpenTable
from sleeper_nb.engines.frames_to_load import first_rows, schema_of_frame
from sleeper_nb.errors import (
    Action,
    AlreadyExists,
    HintParts,
    InvalidInput,
    OutcomeUnknown,
    SleeperError,
    StateRuleBroken,
    StorageError,
)
from sleeper_nb.load import sources as loading
from sleeper_nb.load.bulk_load import ending_at_first
from sleeper_nb.load.conform import WHOLE_LINE, Difference, raise_first
from sleeper_nb.load.data_columns import (
    DataColumn,
    GroupedNumbers,
    OddTexts,
    SchemaChoice,
    check_has_names,
    check_named_columns,
    columns_of,
    columns_of_arrow,
    has_valid_name,
    materialised,
    named,
    odd_texts,
)
from sleeper_nb.load.ingest import IngestSettings, committed, remember_files, write_rows
from sleeper_nb.load.load_options import AS_IT_IS, LoadArguments, LoadOptions, Matching, valid_name
from sleeper_nb.load.load_report import IngestPlan
from sleeper_nb.load.row_checks import RowCheck, UniqueKeysOfLoad
from sleeper_nb.load.source_files import SourceFile, hidden_note
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.load.split import (
    LOOKED_AT,
    KeySample,
    are_parquet,
    default_leaves,
    initial_split_points,
    key_candidates,
    sample_of,
    sample_of_files,
    sample_size,
)
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.file_reference import FileReference
from sleeper_nb.model.load_hints import for_new_table
from sleeper_nb.model.partitions import PartitionTree, even_tree
from sleeper_nb.model.properties import (
    DATA_PATH,
    ICEBERG,
    SPLITS_BASE64,
    SPLITS_FILE,
    STATE_STORE,
    TABLE_SCHEMA,
    TableProperties,
    schema_line,
)
from sleeper_nb.model.schema import FieldType, Schema
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import CommitPoint, TableState
from sleeper_nb.model.table_names import check_table_name
from sleeper_nb.model.transactions import AddFiles, ReplaceTable, initial_state
from sleeper_nb.progress import finishing
from sleeper_nb.report import counted
from sleeper_nb.session.table_opener import TableOpener
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.table.configuring import check_fit
from sleeper_nb.table.load_work import LoadWork
from sleeper_nb.table.publishing import note_after_all

logger = logging.getLogger(__name__)


class TableArguments(LoadArguments, total=False):
    """The keyword arguments of a table that is created or planned; `Session.create_table` says what they mean."""

    state_store: str | None
    properties: Mapping[str, str] | None
    data: Any
    row_keys: Sequence[str]
    sort_keys: Sequence[str]
    types: Mapping[str, str] | None
    leaves: int | None
    like: str | None
    or_replace: bool
    message: str | None


@dataclass(frozen=True, slots=True)
class TableRequest:
    """What a user wants to create; parameters as of `Session.create_table`."""

    name: str
    schema: Schema | None = None  # None when it is made of the data, or is that of another table
    split_points: Iterable[Any] | None = None
    state_store: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None
    replaces: bool = False
    data: Any = None  # the rows; None for an empty table
    choice: SchemaChoice = field(default_factory=SchemaChoice)  # when the schema is made of the data
    leaves: int | None = None
    like: str | None = None  # another table, whose schema, partitions and properties apply where none are given
    options: LoadOptions = AS_IT_IS

    @classmethod
    def of(cls, name: str, schema: Any, split_points: Iterable[Any] | None, arguments: TableArguments) -> TableRequest:
        """Return the request of a call with these arguments."""
        given: dict[str, Any] = dict(arguments)
        data, has_schema = given.pop("data", None), isinstance(schema, Schema)
        return cls(
            name,
            schema if has_schema else None,
            split_points,
            given.pop("state_store", None),
            given.pop("properties", None) or {},
            given.pop("message", None),
            given.pop("or_replace", False),
            data if schema is None or has_schema else schema,
            SchemaChoice(
                tuple(given.pop("row_keys", ())), tuple(given.pop("sort_keys", ())), given.pop("types", None) or {}
            ),
            given.pop("leaves", None),
            given.pop("like", None),
            LoadOptions.of(given),
        )

    def check(self) -> None:
        """Raise `InvalidInput` when parts of it exclude each other, or one is missing."""
        name = self.name
        if self.leaves is not None and self.split_points is not None:
            raise InvalidInput(f"table {name!r} is given both leaves and split points", hint="give one of them")
        if self.schema is not None and self.choice != SchemaChoice():
            raise InvalidInput(f"table {name!r} is given both a schema and keys or types", hint="give one of them")
        if self.like is not None and (self.schema is not None or self.choice != SchemaChoice()):
            raise InvalidInput(f"table {name!r} is given a schema, and another by like", hint="leave one of them out")
        if self.data is None and self.like is None and self.schema is None:
            raise InvalidInput(
                f"table {name!r} has neither columns nor data",
                hint="give a schema, such as sl.Schema({'id': 'string'}), or data and row_keys",
            )
        if self.leaves is not None and self.properties.get(SPLITS_FILE):
            raise InvalidInput(f"table {name!r} is given both leaves and {SPLITS_FILE}", hint="give one of them")
        if self.data is None and self.leaves is not None:
            raise InvalidInput("leaves are estimated from data, but none is given", hint="give split_points instead")


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a table goes: its store and settings, checked, and how its first version is committed."""

    store: StateStore
    settings: TableProperties
    commit: Callable[[PartitionTree, tuple[FileReference, ...], str | None], Snapshot]


def planned(tables: TableOpener, new: TableRequest, schema: Schema) -> tuple[TableProperties, PartitionTree]:
    """Return the properties and the partitions of a new table; raise when it cannot be created."""
    settings = _settings(tables, new, schema)
    points = initial_split_points(schema, new.split_points, settings, tables.storage)
    return settings, PartitionTree.from_split_points(schema, points, tables.components.clock.new_id)


def _settings(tables: TableOpener, new: TableRequest, schema: Schema) -> TableProperties:
    """Return the properties of a new table, or of the table that it replaces; raise when they do not fit."""
    components = tables.components
    files = components.property_files
    if new.replaces and _exists(tables, new):
        before = tables.named(new.name).properties
        check_changes(new.name, before, new.properties)
        kept = {name: text for name, text in before.texts.items() if name not in {SPLITS_FILE, SPLITS_BASE64}}
        settings = replace(before, texts={**kept, **new.properties})
        if new.state_store not in (None, before[STATE_STORE]):
            hint = Action(f"migrate {new.name} --to {new.state_store}", f"session.admin.migrate({new.name!r}, …)")
            raise InvalidInput(f"table {new.name!r} has another state store, {before[STATE_STORE]}", hint=hint)
    else:
        _check_name_is_free(new.name, tables.names())
        kind = new.properties.get(STATE_STORE) or new.state_store or files.new({})[STATE_STORE]
        settings = files.new({STATE_STORE: kind, **new.properties, TABLE_SCHEMA: schema_line(schema)})
    try:
        check_fit(settings, schema, components)
    except SleeperError as error:
        if not new.replaces:
            raise
        other = (*error.hint_parts, "; give the table other properties with its new columns")
        message = f"the properties of table {new.name!r} do not fit its new columns: {error.message}"
        raise InvalidInput(message, hint=other) from error
    components.engines.row_checks(schema)
    return settings


def _check_name_is_free(name: str, others: Iterable[str]) -> None:
    try:
        check_table_name(name, others)
    except AlreadyExists as error:
        error.hint = (
            "choose another name, leave the table as it is: ",
            Action("--if-not-exists", "if_not_exists=True"),
            ", or give the table a new version: ",
            Action("--or-replace", "or_replace=True"),
        )
        raise


def _target(tables: TableOpener, new: TableRequest, schema: Schema, settings: TableProperties) -> _Target:
    if new.replaces and _exists(tables, new):
        return _replaced(tables, new, schema, settings)
    components, table_id = tables.components, tables.components.clock.new_id()[:TABLE_ID_DIGITS]
    store = tables.store(table_id, settings, settings[STATE_STORE])
    content = settings.to_text()

    def commit(tree: PartitionTree, references: tuple[FileReference, ...], expectations: str | None = None) -> Snapshot:
        components.property_files.add(table_id, content)
        try:
            made = store.create(
                new.name,
                schema,
                tree,
                author=components.author,
                processing=settings.processing,
                properties_checksum=checksum_of(content.encode()),
                references=references,
                message=new.message,
                expectations=expectations,
            )
        except OutcomeUnknown:
            raise  # the table may exist, and needs the file
        except SleeperError:
            tables.forget(table_id)
            with contextlib.suppress(StorageError):  # the first error is the one to report
                components.property_files.remove(table_id)
            raise
        logger.info("created table %s (%s) in %s", new.name, table_id, store.name)
        return made

    return _Target(store, settings, commit)


def _replaced(tables: TableOpener, new: TableRequest, schema: Schema, settings: TableProperties) -> _Target:
    """Return how a new version of an existing table, with another schema and other rows, is committed.

    The new rows may have been made of the table's own, so it must not have changed meanwhile: an ingest would be lost.
    """
    table = tables.named(new.name)
    components, base = tables.components, table.store.head().id

    def commit(tree: PartitionTree, references: tuple[FileReference, ...], expectations: str | None = None) -> Snapshot:
        def replaced(state: TableState, schema_id: int, made: Schema) -> ReplaceTable:
            if state.snapshot_id != base:
                raise StateRuleBroken(
                    f"table {new.name!r} was changed while its new version was made", hint="run it again"
                )
            return ReplaceTable(schema_id, made, tree, references, settings.processing)

        with components.property_files.with_commit(table.entry.id, new.properties, takes_schema=True) as announce:
            change = SchemaCommit(table.store, lambda *_: schema, replaced, announce)
            *_, snapshot = change.commit(author=components.author, message=new.message, expectations=expectations)
        logger.info("table %s: replaced in snapshot %d", new.name, snapshot.id)
        return snapshot

    return _Target(table.store, settings, commit)


def create_table(tables: TableOpener, request: TableRequest) -> tuple[HintParts, ...]:
    """Create a table as a user wants it.

    Returns
    -------
    Notes: the columns that are text only because of a few values, and what was left out.
    """
    request, tree = _as_its_model(tables, request)
    if request.data is not None:
        with _opened(tables, request) as sources, _definition_in_hints():
            load = _Load.of(tables, request, tree, sources)
            left_out = _left_out(sources)
            odd = load.odd_texts()  # first: after the load, a file that is gone would be an error
            store, notes = load.run()
            remember_files(store, sources, store.head().id)
            return (*(each.line for each in odd), *((note,) for note in (*notes, *left_out)))
    assert request.schema is not None  # noqa: S101 - checked above
    settings, new_tree = planned(tables, request, request.schema)
    _target(tables, request, request.schema, settings).commit(tree or new_tree, (), None)
    return ()


def publish_new(table: OpenTable) -> None:
    """Publish the version that a table begins with, if its properties ask for each commit."""
    if table.properties[ICEBERG] == "commits" and (note := note_after_all(table)):
        table.components.progress.finish(f"note: {note}")


def plan_table(tables: TableOpener, request: TableRequest) -> CreatePlan:
    """Return what `create_table` would create."""
    request, tree = _as_its_model(tables, request)
    if request.data is not None:
        with _opened(tables, request) as sources, _definition_in_hints():
            plan = _Load.of(tables, request, tree, sources).plan()
            return replace(plan, notes=(*plan.notes, *_left_out(sources)))
    assert request.schema is not None  # noqa: S101 - checked above
    planned(tables, request, request.schema)
    return CreatePlan(request.name, request.schema, 0, 0, replaces=_exists(tables, request))


def _as_its_model(tables: TableOpener, request: TableRequest) -> tuple[TableRequest, PartitionTree | None]:
    request.check()
    return (request, None) if request.like is None else _like(tables, request)


def _left_out(sources: Sequence[IngestSource]) -> tuple[str, ...]:
    return tuple(filter(None, [hidden_note(each for each in sources if isinstance(each, SourceFile))]))


def _like(tables: TableOpener, request: TableRequest) -> tuple[TableRequest, PartitionTree | None]:
    """Return a request with the schema and properties of another table, and its partitions if none are given."""
    assert request.like is not None  # noqa: S101 - the caller asked
    other = tables.named(request.like)
    state = other.store.load()
    own = {TABLE_SCHEMA, STATE_STORE, DATA_PATH, SPLITS_FILE, SPLITS_BASE64}
    texts = {
        name: text for name, text in other.properties.processed_as(state.processing).texts.items() if name not in own
    }
    keeps_its_own = request.replaces and _exists(tables, request)
    kind = request.state_store or (None if keeps_its_own else other.properties[STATE_STORE])
    properties = {**texts, **request.properties}
    keeps_tree = request.split_points is None and request.leaves is None
    like = replace(request, schema=state.schema.as_new, properties=properties, state_store=kind)
    return like, state.tree if keeps_tree else None


@contextlib.contextmanager
def _definition_in_hints() -> Iterator[None]:
    """Make the hint of an error about data change the definition of the table, which does not exist."""
    try:
        yield
    except InvalidInput as error:
        error.hint = for_new_table(error.hint_parts)
        raise


def _defined(found: Difference) -> Difference:
    return replace(found, hint=for_new_table(found.hint))


def _exists(tables: TableOpener, new: TableRequest) -> bool:
    return tables.components.catalog.find_table(new.name) is not None


def estimated_split_points(tables: TableOpener, request: TableRequest) -> SplitPointsEstimate:
    """Return split points that cut data into even leaves; nothing is created."""
    if not request.choice.row_keys:
        raise InvalidInput(
            "split points need a row key", hint=("choose it: ", Action("--keys NAME", "row_keys=[NAME]"))
        )
    with _opened(tables, request) as sources:
        return _Load.of(tables, request, None, sources).split_points()


def _opened(tables: TableOpener, request: TableRequest) -> AbstractContextManager[tuple[IngestSource, ...]]:
    """Open the data; files of the web are there until the end."""
    return loading.opened_sources(request.data, tables.storage, request.options, tables.components.progress)


class _Load:
    """Rows that become a table; `tree` has its partitions, when they are not made of the data."""

    def __init__(
        self,
        tables: TableOpener,
        request: TableRequest,
        tree: PartitionTree | None,
        work: LoadWork,
        columns: tuple[DataColumn, ...],
    ) -> None:
        self._tables, self._given_tree = tables, tree
        self._request = replace(request, choice=request.choice.for_columns(columns))
        self._work, self._sources, self._columns = work, work.rows, columns

    @classmethod
    def of(
        cls, tables: TableOpener, request: TableRequest, tree: PartitionTree | None, sources: tuple[IngestSource, ...]
    ) -> _Load:
        matching = request.options.matching
        check_named_columns(sources, matching, request.schema)
        if loading.is_spark(sources):
            columns = named(columns_of_arrow(schema_of_frame(sources)), matching)
            return cls(tables, request, tree, LoadWork.of(tables.components, sources, matching), columns)
        sources = materialised(sources)
        if request.schema is not None and not request.options.csv.header:
            matching = replace(matching, columns=matching.columns or request.schema.names)
        found = columns_of(sources, matching)
        columns = named(found, matching)
        if request.schema is None:
            check_has_names(sources, columns or found, matching)
        work = LoadWork.of(tables.components, sources, request.options.matching)
        return cls(tables, request, tree, work, columns)

    def plan(self) -> CreatePlan:
        """Return what `run` would create; without row keys, the columns as possible keys."""
        request = self._request
        size = loading.bytes_of(self._sources)
        problems = () if request.schema else request.choice.problems(self._columns)
        has_keys = request.schema is not None or bool(request.choice.row_keys)
        if problems or not has_keys:
            candidates = () if has_keys else self._candidates()
            return CreatePlan(
                request.name,
                None,
                None,
                size,
                differences=problems,
                candidates=candidates,
                columns=self._columns,
                odd_texts=self.odd_texts(),
            )
        schema = self._schema()
        settings = _settings(self._tables, request, schema)
        found = self._planned(schema, settings)
        return CreatePlan(
            request.name,
            schema,
            found.rows,
            size,
            found.leaves,
            differences=tuple(map(_defined, found.differences)),
            columns=self._columns,
            replaces=_exists(self._tables, request),
            notes=found.notes,
            odd_texts=self.odd_texts(),
        )

    def odd_texts(self) -> tuple[OddTexts | GroupedNumbers, ...]:
        """Return the columns that are text only because of how values are written, unless their types were chosen."""
        choice = self._request.choice
        if self._request.schema is not None:
            return ()
        texts = [each for each in self._columns if each.type == FieldType("string") and each.name not in choice.types]
        keys = {each.name_in_data for each in texts if each.name in (*choice.row_keys, *choice.sort_keys)}
        return odd_texts(self._sources, {each.name_in_data for each in texts}, keys)

    def _planned(self, schema: Schema, settings: TableProperties) -> IngestPlan:
        """Return the plan of the load, with every difference of every source."""
        if not self._work.in_bulk:
            return self._planned_with(self._sample(schema), schema, settings)
        try:
            return self._planned_with(self._sample(schema), schema, settings)
        except InvalidInput:  # what reads in bulk ends at the first row that does not fit
            no_keys = sample_of(schema.arrow.empty_table(), schema, 0)
            found = self._planned_with(no_keys, schema, settings)
            if not found.differences:
                raise
            return found

    def _planned_with(self, sample: KeySample, schema: Schema, settings: TableProperties) -> IngestPlan:
        tree = self._tree(schema, settings, sample)
        state = initial_state(schema, tree, CommitPoint(0, self._tables.components.clock.now()))
        strategy, checks = IngestSettings.of(settings).strategy, self._checks_of(settings)(schema)
        return self._work.plan(state, self._tables.storage, strategy, checks)

    def split_points(self) -> SplitPointsEstimate:
        """Return the split points of the first row key; raise when a value of a row key does not fit."""
        schema = self._schema()
        sample = self._sample(schema, refuse=True)
        leaves = default_leaves(sample.rows) if self._request.leaves is None else self._request.leaves
        return SplitPointsEstimate.of(schema, sample, leaves)

    def run(self) -> tuple[StateStore, tuple[str, ...]]:
        """Write the rows, and commit the table with them; after an error there is no table and no file.

        Returns the table's store, and what to know of some of the files.
        """
        schema = self._schema()
        target = _target(self._tables, self._request, schema, _settings(self._tables, self._request, schema))
        if self._work.in_bulk:
            self._run_in_bulk(schema, target)
            return target.store, ()
        with finishing(self._tables.components.progress) as progress:
            progress.update("reading")
            checks = self._checks_of(target.settings)(schema)
            read = loading.read_sources(self._sources, schema, self._matching, checks=checks)
            rows, text = read.rows, read.judged.text
            tree = self._tree(schema, target.settings, sample_of(rows, schema, sample_size(self._request.leaves)))
            progress.update(f"writing {counted(rows.num_rows, 'row')}")
            store = target.store
            files = write_rows(
                store.storage, rows, schema, tree, IngestSettings.of(target.settings), store.clock.new_id
            )
            committed(store, files, lambda references: self._commit(target, schema, tree, references, text))
            if read.all_notes:
                progress.finish("; ".join(read.all_notes))
            return store, read.notes_of_some

    def _run_in_bulk(self, schema: Schema, target: _Target) -> None:
        store = target.store
        load = self._work.bulk_load(store, IngestSettings.of(target.settings), self._checks_of(target.settings))
        with ending_at_first(self._sources):
            sample = self._sample(schema)
        tree = self._tree(schema, target.settings, sample)
        load.run(
            lambda: committed(
                store,
                load.write(schema, tree),
                lambda references: self._commit(target, schema, tree, references, load.judged.text),
            ),
            self._tables.components.progress,
        )
        for note in filter(None, (*load.judged.notes, load.runs_note)):
            self._tables.components.progress.finish(note)

    def _commit(
        self,
        target: _Target,
        schema: Schema,
        tree: PartitionTree,
        references: tuple[FileReference, ...],
        expectations: str | None,
    ) -> Snapshot:
        """Publish the table with files that were written; raise when it has unique keys, and they are not."""
        clock = self._tables.components.clock
        if schema.unique_keys and references:
            unique = UniqueKeysOfLoad(target.store.storage, clock, AddFiles(references))
            unique.check(initial_state(schema, tree, CommitPoint(0, clock.now())))
        return target.commit(tree, references, expectations)

    def _checks_of(self, settings: TableProperties) -> Callable[[Schema], tuple[RowCheck, ...]]:
        return partial(self._tables.components.engines.load_checks, properties=settings)

    def _schema(self) -> Schema:
        request = self._request
        if request.schema is not None:
            return request.schema
        if not request.choice.row_keys:
            raise self._without_keys()
        return request.choice.schema(self._columns)

    def _without_keys(self) -> InvalidInput:
        best = [each for each in self._candidates() if each.fits][:3]
        as_they_are = all(map(has_valid_name, self._columns))
        names = [each.column.name if as_they_are else valid_name(each.column.name) for each in best]
        proposed = ", ".join(
            f"{name} ({counted(of.distinct, 'different value')})" for name, of in zip(names, best, strict=True)
        )
        columns = "the column with most values is" if len(best) == 1 else "the columns with most values are"
        name = names[0] if names else "NAME"
        choice = Action(
            f"--keys {name}" if as_they_are else f"--keys {name} --by-name",
            f"row_keys=[{name!r}]" if as_they_are else f"row_keys=[{name!r}], by_name=True",
        )
        return InvalidInput(
            f"table {self._request.name!r} needs row keys: the columns by which it is sorted",
            hint=(
                f"{columns} {proposed}; choose with " if best else "choose with ",
                choice,
                "; to see all: ",
                Action("--dry-run", "dry_run=True"),
            ),
        )

    def _candidates(self) -> Any:
        if self._work.of_frame:
            return key_candidates(first_rows(self._sources, LOOKED_AT), self._columns)
        return key_candidates(self._sources, self._columns)

    def _sample(self, schema: Schema, *, refuse: bool = False) -> KeySample:
        """Return a sample of the row keys.

        Sources whose row keys do not fit are left out, as a dry run lists why; with `refuse`, the first such difference
        is raised.
        """
        size = sample_size(self._request.leaves)
        if are_parquet(self._sources):
            return sample_of_files(self._sources, schema, size, self._matching, refuse=refuse)
        if self._work.in_bulk:
            return self._work.sample(schema, size)
        rows = [loading.read_source(source, schema, self._matching) for source in self._sources]
        names = [key.name for key in schema.row_keys]
        if refuse:
            raise_first([found for each in rows for found in each.differences if found.column in {*names, WHOLE_LINE}])
        keys = pa.schema([key.arrow for key in schema.row_keys])
        columns = [[each.columns.get(name) for name in names] for each in rows]
        fitting = [pa.table(found, schema=keys) for found in columns if None not in found]
        return sample_of(pa.concat_tables([keys.empty_table(), *fitting]), schema, size)

    def _tree(self, schema: Schema, settings: TableProperties, sample: KeySample) -> PartitionTree:
        if self._given_tree is not None:
            return self._given_tree
        new_id = self._tables.components.clock.new_id
        if self._request.split_points is not None or settings[SPLITS_FILE]:
            points = initial_split_points(schema, self._request.split_points, settings, self._tables.storage)
            return PartitionTree.from_split_points(schema, points, new_id)
        leaves = default_leaves(sample.rows) if self._request.leaves is None else self._request.leaves
        return even_tree(schema, sample.keys, leaves, new_id)

    @property
    def _matching(self) -> Matching:
        return self._request.options.matching
