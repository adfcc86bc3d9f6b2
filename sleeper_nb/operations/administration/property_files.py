"""The properties files of an instance and its tables: read and replaced as a whole.

Some settings in a table's file are not in effect until a command accepts them, because versions record how their rows
are processed; `pending_settings` and `manual_edit_note` describe such a file.

A change that is a commit and lines of a table's file (`PropertyFiles.with_commit`) is both or neither:

1. Within the commit loop, the catalog records the lines, and the snapshot to which they belong (`AnnouncedLines`).
2. The commit makes that snapshot current, or fails.
3. The file is written, and the record removed. After a crash or a failure before this step, the next process that
   opens the table looks for the snapshot, and does this step if it is there.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from sleeper_nb.catalog.catalog_base import Catalog, TableEntry
from sleeper_nb.errors import (
    Action,
    HintParts,
    InvalidInput,
    NotAllowed,
    NotFound,
    OutcomeUnknown,
    SleeperError,
    StorageError,
)
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.config_text import changed
from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions, place_not_allowed
from sleeper_nb.model.processing import PROCESSING_PROPERTIES
from sleeper_nb.model.properties import (
    DATA_PATH,
    SPLITS_BASE64,
    SPLITS_FILE,
    STATE_STORE,
    SYNC,
    TABLE_SCHEMA,
    InstanceProperties,
    TableProperties,
    schema_line,
)
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.state import TableState
from sleeper_nb.model.transactions import Transaction
from sleeper_nb.operations.administration.property_listing import check_instance_property
from sleeper_nb.storage import metadata as metadata_files
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage, open_near
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.storage.places import Outside, lies_within, linked_in

logger = logging.getLogger(__name__)

_ONCE = (
    "split points are read only when the table is created",
    (
        Action("split {table} --at KEY", "table.split_partitions(at=KEY)"),
        ", or reinitialise the table, which deletes all rows",
    ),
)
_MIGRATE = Action("migrate {table} --to {value}", "session.migrate_state_store('{table}', '{value}')")
_ALTER = Action("alter {table} …", "table.alter(…)")
_RENAME = Action("rename {table} {value}", "session.rename_table('{table}', '{value}')")
_ONLINE = Action("online {table}", "table.set_online()")
_OFFLINE = Action("offline {table}", "table.set_online(False)")
_FIXED: dict[str, tuple[str, HintParts]] = {
    STATE_STORE: ("the metadata must be moved, with its history", (_MIGRATE,)),
    SPLITS_FILE: _ONCE,
    SPLITS_BASE64: _ONCE,
    DATA_PATH: ("the table's files stay where they were written", ("create a table there, and load it",)),
    TABLE_SCHEMA: (
        "rows were written in the table's current schema",
        (_ALTER, " changes columns; reinitialising takes the schema of the file, but deletes all rows"),
    ),
    "sleeper.table.name": ("the catalog keeps it", (_RENAME,)),
    "sleeper.table.online": ("the catalog keeps it", (_ONLINE, ", or ", _OFFLINE)),
    "sleeper.table.id": ("the id of a table never changes", ("leave it out",)),
}
"""For each property that cannot be set: why, and what to do instead."""


_MOST_PARSED: Final = 256
"""How many files are parsed once, as long as they have the same text."""

Announce = Callable[[TableState, Transaction], None]
"""Takes a change right before it is committed, and the state that it changes."""


def nothing_announced(_state: TableState, _change: Transaction) -> None:
    """Announce nothing: the change has no lines in a properties file."""


@dataclass(frozen=True, slots=True)
class AnnouncedLines:
    """Lines of a table's properties file that are written once a snapshot is committed.

    Parameters
    ----------
    snapshot_id, operation, schema_id, processing
        Of the snapshot; `processing` as a checksum.
    changes
        Values by name; None unsets a property.
    takes_schema
        Whether the file also gets the schema of the snapshot.
    """

    snapshot_id: int
    operation: str
    schema_id: int
    processing: str
    changes: Mapping[str, str | None]
    takes_schema: bool

    @classmethod
    def of(
        cls, state: TableState, change: Transaction, changes: Mapping[str, str | None], takes_schema: bool
    ) -> AnnouncedLines:
        """Return the lines that belong to a change of a state."""
        schema_id = getattr(change, "schema_id", state.schema_id)
        processing = getattr(change, "processing", state.processing)
        proof = state.snapshot_id + 1, change.operation, schema_id, checksum_of((processing or "").encode())
        return cls(*proof, dict(changes), takes_schema)

    def belong_to(self, made: Snapshot) -> bool:
        """Return whether a snapshot with the announced number is the announced one."""
        processing = checksum_of((made.processing or "").encode())
        return (made.operation, made.schema_id, processing) == (self.operation, self.schema_id, self.processing)


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """What the catalog records of a table's properties file.

    Parameters
    ----------
    checksums
        Of the file as a command last wrote it; of the file before and after while one is written.
    announced
        Lines that a commit brings; None for none.
    """

    checksums: tuple[str, ...]
    announced: AnnouncedLines | None = None

    @classmethod
    def of(cls, text: str | None) -> RecordedFile | None:
        """Return what a text says; None for None."""
        if text is None:
            return None
        checksums, is_announced, lines = text.partition(" {")
        if not is_announced:
            return cls(tuple(checksums.split()))
        try:
            return cls(tuple(checksums.split()), AnnouncedLines(**json.loads(f"{{{lines}")))
        except (ValueError, TypeError) as error:
            logger.warning("announced lines of a properties file are damaged in the catalog: %s", error)
            return cls(tuple(checksums.split()))

    @property
    def text(self) -> str:
        """The text for the catalog."""
        lines = () if self.announced is None else (json.dumps(asdict(self.announced)),)
        return " ".join((*self.checksums, *lines))


class PropertyFiles:
    """The properties of the tables of an instance, as their files are now.

    Parameters
    ----------
    storage
        The instance's folder.
    instance
        The instance's properties; its defaults apply where a table sets nothing.
    permissions
        Code and places outside the warehouse that the user allows properties to name.
    catalog
        Keeps the checksum of each file as a command last wrote it; with None, no checksums are kept.
    """

    def __init__(
        self,
        storage: Storage,
        instance: InstanceProperties,
        permissions: Permissions = NOTHING_ALLOWED,
        catalog: Catalog | None = None,
    ) -> None:
        self._storage, self.instance, self.permissions, self._catalog = storage, instance, permissions, catalog
        self._from_text = lru_cache(_MOST_PARSED)(TableProperties.from_text)  # each statement reads the file again

    def of_table(self, table_id: str) -> TableProperties:
        """Return the properties of a table; errors name the line of its file."""
        path = paths.table_properties(table_id)
        return self._parsed(read_text(self._storage, path), path)

    def of_entry(self, entry: TableEntry) -> TableProperties:
        """Return the properties of a table.

        Raises
        ------
        InvalidInput
            When the file was emptied or cut: every file that a command wrote has a schema.
        """
        path = paths.table_properties(entry.id)
        is_unfinished = "{" in (entry.properties_checksum or "")
        finished = self._finished_text(entry.id) if is_unfinished else None
        found = self._parsed(read_text(self._storage, path) if finished is None else finished, path)
        if entry.properties_checksum is not None and TABLE_SCHEMA not in found.texts:
            raise InvalidInput(
                f"{self.path(entry.id)} was emptied or cut: it does not set {TABLE_SCHEMA}, which every table has",
                hint=f"restore it from a copy, or add a line {TABLE_SCHEMA}= with the JSON of the schema",
            )
        return found

    def path(self, table_id: str) -> str:
        """Return the address of the file of a table's properties."""
        return self._storage.locate(paths.table_properties(table_id))

    def content(self, table_id: str) -> bytes:
        """Return the content of the file of a table's properties."""
        return self._storage.read(paths.table_properties(table_id))

    def recorded(self, table_id: str) -> RecordedFile | None:
        """Return what the catalog records of a table's properties file; None when it records nothing."""
        entry = None if self._catalog is None else self._catalog.entry(table_id)
        return None if entry is None else RecordedFile.of(entry.properties_checksum)

    def is_edited(self, table_id: str) -> bool:
        """Return whether a table's properties file differs from what a command last wrote."""
        recorded = None
        # another process may replace the file between the two reads
        while (now := self.recorded(table_id)) != recorded:
            recorded = now
            if recorded is None or checksum_of(self.content(table_id)) in recorded.checksums:
                return False
        return recorded is not None

    def accept(self, table_id: str) -> None:
        """Record the current content of a table's properties file, as if a command had written it."""
        if self._catalog is not None:
            self._catalog.note_properties(table_id, checksum_of(self.content(table_id)))

    @contextlib.contextmanager
    def with_commit(
        self, table_id: str, changes: Mapping[str, str | None], *, takes_schema: bool = False
    ) -> Iterator[Announce]:
        """Set properties of a table together with a commit: when the block fails, neither is changed.

        The block commits a change, and calls what it gets with the change right before it is published.

        Parameters
        ----------
        changes
            Values that passed `check_changes`, and that fit the table.
        takes_schema
            Whether the file also gets the schema of the new snapshot.
        """
        lines: AnnouncedLines | None = None

        def announce(state: TableState, change: Transaction) -> None:
            nonlocal lines
            self._finish(table_id)  # of another process that ended
            recorded = self.recorded(table_id) or RecordedFile((checksum_of(self.content(table_id)),))
            lines = AnnouncedLines.of(state, change, changes, takes_schema)
            self._note(table_id, replace(recorded, announced=lines))

        try:
            yield announce
        except OutcomeUnknown:
            raise  # the next process that opens the table knows
        except SleeperError:
            if lines is not None:
                self._withdraw(table_id, lines)
            raise
        if lines is not None:
            self._finished_text(table_id)  # the change is committed: an error would say that it failed

    def _withdraw(self, table_id: str, lines: AnnouncedLines) -> None:
        """Remove lines whose commit failed from the catalog; those of another process stay."""
        with contextlib.suppress(
            SleeperError
        ):  # the first error is the one to report; without their snapshot, they wait
            recorded = self.recorded(table_id)
            if recorded is None or recorded.announced != lines:
                return
            if self._announced(table_id) is None:
                self._note(table_id, replace(recorded, announced=None))
            else:  # it is what followed the commit that failed
                self._finish(table_id)

    def _announced(self, table_id: str) -> tuple[str, str] | None:
        """Return a table's file before and after its announced lines; None when there are none to write."""
        recorded = self.recorded(table_id)
        if recorded is None or recorded.announced is None or self._catalog is None:
            return None
        lines, path = recorded.announced, paths.table_properties(table_id)
        made = self._catalog.snapshot(table_id, lines.snapshot_id)
        if made is None or not lines.belong_to(made):
            return None
        before, changes = read_text(self._storage, path), dict(lines.changes)
        if lines.takes_schema:
            storage = self.storage_of(table_id, self._parsed(before, path))
            schema = metadata_files.read_schema(storage, made.schema_id, made.schema_checksum)
            changes[TABLE_SCHEMA] = schema_line(schema)
        return before, changed(before, changes)

    def _finish(self, table_id: str) -> None:
        """Write the announced lines of a table's file, if their snapshot was made."""
        texts = self._announced(table_id)
        if texts is not None:
            self._replace(table_id, *texts, finished=True)

    def _finished_text(self, table_id: str) -> str | None:
        """Return a table's file with the announced lines, which are written if that is possible; None for none."""
        texts = None
        try:
            texts = self._announced(table_id)
            if texts is not None:
                self._replace(table_id, *texts, finished=True)
        except SleeperError as error:
            logger.warning(
                "table %s: lines of its properties file that belong to a commit are not written yet; "
                "the next process that opens the table tries again: %s",
                *(table_id, error.message),
            )
        return None if texts is None else texts[1]

    def _replace(self, table_id: str, before: str, after: str, *, finished: bool = False) -> None:
        """Write the file. If it was changed by hand before, it counts as changed by hand until it is accepted.

        `finished` removes announced lines from the record.
        """
        path, old, new = paths.table_properties(table_id), checksum_of(before.encode()), checksum_of(after.encode())
        recorded = self.recorded(table_id) or RecordedFile((old,))
        is_as_written = old in recorded.checksums
        if is_as_written and after != before:
            self._note(table_id, replace(recorded, checksums=(old, new)))
        if after != before:
            self._storage.write(path, after.encode())
        left = RecordedFile((new,) if is_as_written else recorded.checksums, None if finished else recorded.announced)
        if left == recorded:
            return
        try:
            self._note(table_id, left)
        except StorageError as error:  # the file is written, and what is recorded allows it
            logger.warning("table %s: the old checksum of its properties stays recorded: %s", table_id, error.message)

    def _note(self, table_id: str, recorded: RecordedFile) -> None:
        if self._catalog is not None:
            self._catalog.note_properties(table_id, recorded.text)

    def storage_of(self, table_id: str, properties: TableProperties) -> Storage:
        """Return the folder of a table's data and metadata: below ``sleeper.table.data.path``, or in the instance.

        Raises
        ------
        NotAllowed
            When it is outside the warehouse, by its address or through a link, and the user has not allowed the place.
        """
        storage = self._place(properties).below(table_id)
        if storage.local:
            places = [*map(storage.locate, ("", *paths.FOLDERS)), *linked_in(storage.locate("data"))]
            for place in places:
                self._check_place(place)
            # a link to another table of the warehouse can be read, but the files there are not this table's
            links = (each.removeprefix(f"{storage.root}/") for each in places[1:] if Path(each).is_symlink())
            storage = storage.staying(each for each in links if self._has_allowed(storage.locate(each)))
        return storage.reading(self.outside)

    @property
    def outside(self) -> Outside:
        """Where tables may read files that are not in their folders."""
        return Outside.of(self._usable(), self._storage.root)

    def place_of(self, table_id: str) -> Storage:
        """Return the folder that contains a table's folder; the instance's when the table's file is already deleted."""
        try:
            return self._place(self.of_table(table_id))
        except NotFound:
            return self._storage

    def _place(self, properties: TableProperties) -> Storage:
        path = properties[DATA_PATH]
        if not path:
            return self._storage
        self._check_place(path)
        home = open_near(path, self._storage)
        return Storage(LocalPlace(home.root, sync=self.instance[SYNC])) if home.local else home

    def check_splits_file(self, properties: TableProperties) -> None:
        """Raise `NotAllowed` when a table's properties name a split points file outside the warehouse.

        The properties may come with a warehouse from elsewhere; a file named in a call or a command is the user's own
        choice.
        """
        file = properties[SPLITS_FILE]
        if file and not self._may_use(file):
            raise NotAllowed(
                f"the table's properties name the split points file {file}, outside the warehouse",
                hint=(
                    "name the file yourself: ",
                    Action("--splits-file FILE", "splits_file=FILE"),
                    "; or give the split points",
                ),
            )

    def check_own_places(self) -> None:
        """Raise `NotAllowed` when the instance's catalog or properties are links to places outside the warehouse."""
        for path in (paths.CATALOG, *paths.CONFIG) if self._storage.local else ():
            self._check_place(self._storage.locate(path))

    def _check_place(self, address: str) -> None:
        if not self._may_use(address):
            raise place_not_allowed(address, self._storage.root)

    def _may_use(self, address: str) -> bool:
        return any(lies_within(address, root) for root in self._usable())

    def _has_allowed(self, address: str) -> bool:
        return any(lies_within(address, root) for root in self.permissions.data_paths)

    def _usable(self) -> tuple[str, ...]:
        """Return the warehouse, and the places outside it that the user has allowed."""
        return (self._storage.root.rpartition("/")[0], *self.permissions.data_paths)

    def new(self, texts: Mapping[str, str]) -> TableProperties:
        """Return the properties of a table that sets some; raise when they contradict each other."""
        return self._whole(TableProperties(texts), "")

    def add(self, table_id: str, content: str) -> None:
        """Write the file of a new table."""
        self._storage.write(paths.table_properties(table_id), content.encode())

    def remove(self, table_id: str) -> None:
        """Delete the file of a table, if it is there."""
        self._storage.delete(paths.table_properties(table_id))

    def checked(
        self, table_id: str, changes: Mapping[str, str | None], check: Callable[[TableProperties], object]
    ) -> TableProperties:
        """Return the properties that a table has once some are set, or unset where None; nothing is changed.

        Parameters
        ----------
        changes
            Values that passed `check_changes`.
        check
            Raises when the properties do not fit the table.
        """
        path = paths.table_properties(table_id)
        properties = self._parsed(changed(read_text(self._storage, path), changes), path)
        check(properties)
        return properties

    def change(self, table_id: str, changes: Mapping[str, str | None]) -> None:
        """Set properties of a table that were `checked`. Other lines of its file are kept.

        The file is replaced as a whole: of two changes at the same time, the later may undo the earlier.
        """
        self._finish(table_id)
        before = read_text(self._storage, paths.table_properties(table_id))
        after = changed(before, changes)
        if after != before:
            self._replace(table_id, before, after)

    def change_instance(self, changes: Mapping[str, str | None]) -> None:
        """Set properties of the instance, or unset those that are None. Other lines of its file are kept.

        Raises
        ------
        InvalidInput, NotFound
            When a value has the wrong type, or instances have no such property; nothing is changed then.
        """
        for name in changes:
            check_instance_property(name)
        InstanceProperties({name: text for name, text in changes.items() if text is not None})
        path = paths.INSTANCE_PROPERTIES
        try:
            before = read_text(self._storage, path)
        except NotFound:  # no property of the instance was ever set
            before = ""
        after = changed(before, changes)
        parsed = InstanceProperties.from_text(after, self._storage.locate(path))  # raises for other bad lines, too
        TableProperties({}, parsed.table_defaults).check_together()
        if after != before:
            self._storage.write(path, after.encode())
        texts = {**self.instance.texts, **changes}
        self.instance = InstanceProperties({name: text for name, text in texts.items() if text is not None})

    def _parsed(self, content: str, path: str) -> TableProperties:
        source = self._storage.locate(path)
        return self._whole(self._from_text(content, source), source)

    def _whole(self, properties: TableProperties, source: str) -> TableProperties:
        whole = replace(properties, defaults=self.instance.table_defaults, permissions=self.permissions)
        whole.check_together(source)
        return whole


def read_text(storage: Storage, path: str) -> str:
    """Return the text of a properties file.

    Raises
    ------
    InvalidInput
        When it is not UTF-8.
    """
    try:
        return storage.read(path).decode()
    except UnicodeDecodeError as error:
        hint = r"save it as UTF-8, or write \u00e9 for é"
        raise InvalidInput(f"{storage.locate(path)} is not UTF-8", hint=hint) from error


def check_changes(table: str, before: TableProperties, changes: Mapping[str, str | None]) -> None:
    """Raise unless the properties of a table may be set to these values.

    Parameters
    ----------
    table
        The table's name, for hints.
    before
        The current properties.
    changes
        New values by name; None unsets a property; of the schema, it means that of the table.

    Raises
    ------
    InvalidInput
        When a value has the wrong type, or the property cannot be set: the hint says what to do instead.
    NotFound
        When there is no such property; the hint names the nearest.
    """
    for name, text in changes.items():
        known = name in before.defined
        is_restored = name == TABLE_SCHEMA and text is None
        if name in _FIXED and not is_restored and not (known and text == before.text(name)):
            why, instead = _FIXED[name]
            hint = tuple(_filled(part, table, text or "…") for part in instead)
            raise InvalidInput(f"property {name} cannot be changed: {why}", hint=hint)
        if not known:
            raise NotFound.of("property", name, before.defined)
    TableProperties({name: text for name, text in changes.items() if text is not None})


def _filled(part: str | Action, table: str, value: str) -> str | Action:
    """Return a part of a hint with the table and the value in its action."""
    if isinstance(part, str):
        return part
    return Action(part.line.format(table=table, value=value), part.python.format(table=table, value=value))


def accepting(table: str) -> Action:
    """Return what accepts the file of a table's properties as it is."""
    return Action(f"properties {table} --accept", "table.accept_properties()")


def pending_settings(properties: TableProperties, state: TableState, table: str, path: str) -> tuple[str, ...]:
    """Return a note for each setting of a table's properties file that is not in effect. Pure.

    Parameters
    ----------
    properties
        The properties as the file sets them.
    state
        The current version.
    table, path
        The table's name, and the address of the file.
    """
    notes = []
    if state.processing not in (None, properties.processing):
        notes = _pending_processing(properties, state.processing, table, path)
    schema = properties[TABLE_SCHEMA]
    if schema not in (None, state.schema):
        notes.append(
            f"{path} has another {TABLE_SCHEMA} than the table, which keeps its own. To restore the file: "
            f"properties {table} --unset {TABLE_SCHEMA}, or in Python "
            f"table.set_properties({{{TABLE_SCHEMA!r}: None}}). "
            f"To change columns and keep the rows: alter {table} …. Only reinitialising takes the schema of the file; "
            "it deletes all rows"
        )
    return tuple(notes)


def _pending_processing(properties: TableProperties, recorded: str | None, table: str, path: str) -> list[str]:
    """Return a note for each setting of row processing that differs from what the version recorded."""
    notes = []
    in_effect = properties.processed_as(recorded)
    for name in PROCESSING_PROPERTIES:
        in_file, effective = properties.text(name), in_effect.text(name)
        if in_file != effective:
            setting = f"sets {name}={in_file}" if in_file else f"does not set {name}"
            notes.append(
                f"{path} {setting}, but the value in effect is {effective or 'empty'}. To put the file into effect: "
                f"properties {table} --accept, or in Python table.accept_properties(). To restore the file: "
                f"properties {table} '{name}={effective}'"
            )
    return notes


def manual_edit_note(table: str, path: str) -> str:
    """Return the note about a properties file that differs from what a command last wrote."""
    accept = f"properties {table} --accept, or in Python table.accept_properties()"
    return f"{path} was changed by hand, or damaged: check it, then accept it: {accept}"
