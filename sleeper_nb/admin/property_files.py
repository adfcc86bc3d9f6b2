"""The properties files of an instance and its tables: read and replaced as a whole.

Some settings in a table's file are not in effect until a command accepts them, because versions record how their rows
are processed; `pending_settings` and `manual_edit_note` describe such a file.

The catalog has a record of each table's file, which changes only by compare-and-set (`RecordedFile`). A change that
is a commit and lines of the file (`PropertyFiles.with_commit`) is both or neither:

1. The commit itself puts the lines into the record. It is lost, and tried again, when another process changed the
   record; the lines that still wait there are kept.
2. The lines are written to the file, and wait no more. After a crash or a failure before this step, the next process
   that opens the table does it.

A file cannot be replaced by compare-and-set. So a process that has written one, and then finds another record than
before, may have undone lines of others: it writes them again, which the record keeps for this.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sleeper_nb.catalog.catalog_base import Catalog, PropertiesNote, TableEntry
from sleeper_nb.errors import Action, ConflictError, InvalidInput, NotAllowed, NotFound, SleeperError, StorageError
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
from sleeper_nb.state_store.commit_queue import Announce
from sleeper_nb.storage import metadata as metadata_files
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage, open_near
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.storage.places import Outside, lies_within, linked_in

logger = logging.getLogger(__name__)

_ONCE = (
    "split points are read only when the table is created",
    (
        Action("split {table} --at KEY", "table.maintenance.split(at=KEY)"),
        ", or reinitialise the table, which deletes all rows",
    ),
)
_MIGRATE = Action("migrate {table} --to {value}", "session.admin.migrate('{table}', '{value}')")
_ALTER = Action("alter {table} …", "table.alter(…)")
_RENAME = Action("rename {table} {value}", "session.rename_table('{table}', '{value}')")
_ONLINE = Action("online {table}", "table.maintenance.online()")
_OFFLINE = Action("offline {table}", "table.maintenance.offline()")
_FIXED: dict[str, tuple[str, tuple[str | Action, ...]]] = {
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

_MOST_TRIES: Final = 40
"""How often a file is written when other processes change it at the same time."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a table's properties file."""

    values: Mapping[str, str | None] = field(default_factory=dict)  # by name; None unsets a property
    schema: tuple[int, str | None] | None = None  # id and checksum of the schema that the file gets; None leaves it

    def __bool__(self) -> bool:
        return bool(self.values or self.schema)

    def then(self, later: Lines) -> Lines:
        """Return these lines and others that are written after them."""
        return Lines({**self.values, **later.values}, later.schema or self.schema)

    @property
    def short(self) -> Lines:
        """These lines without the text of a schema, which may be long."""
        return replace(self, values={name: text for name, text in self.values.items() if name != TABLE_SCHEMA})

    @classmethod
    def of(cls, values: Mapping[str, str | None], schema: list[Any] | None) -> Lines:
        """Return the lines that a record in the catalog has."""
        return cls(values, None if schema is None else (schema[0], schema[1]))


_NO_LINES: Final = Lines()


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """What the catalog records of a table's properties file."""

    # of the file as a command last wrote it; of the file before and after while one is written
    checksums: tuple[str, ...]
    number: int = 0  # of the record: it grows, so that no record returns
    waiting: Lines = _NO_LINES  # lines that a commit brought, and that may not be in the file yet
    kept: Lines = _NO_LINES  # lines that commands have written, for a process that finds them undone

    @classmethod
    def of(cls, text: str | None) -> RecordedFile | None:
        """Return what a text says; None for None."""
        if text is None:
            return None
        checksums, has_more, more = text.partition(" {")
        if not has_more:
            return cls(tuple(checksums.split()))
        try:
            read = json.loads(f"{{{more}")
            return cls(tuple(checksums.split()), read["number"], Lines.of(**read["waiting"]), Lines.of(**read["kept"]))
        except (ValueError, TypeError, LookupError) as error:
            logger.warning("lines of a properties file are damaged in the catalog: %s", error)
            return cls(tuple(checksums.split()))

    def announcing(self, lines: Lines) -> RecordedFile:
        return replace(self, number=self.number + 1, waiting=self.waiting.then(lines))

    def written(self, checksums: tuple[str, ...], own: Lines) -> RecordedFile:
        """Return the record once the waiting lines, and then a command's own, are in the file."""
        kept = self.kept.then(self.waiting).then(own).short
        return RecordedFile(checksums, self.number + 1, kept=kept)

    @property
    def text(self) -> str:
        if self == RecordedFile(self.checksums):
            return " ".join(self.checksums)
        more = {"number": self.number, "waiting": asdict(self.waiting), "kept": asdict(self.kept)}
        return " ".join((*self.checksums, json.dumps(more)))


class PropertyFiles:
    """The properties of the tables of an instance, as their files are now.

    Parameters
    ----------
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

        `InvalidInput` when the file was emptied or cut: every file that a command wrote has a schema.
        """
        path, recorded = paths.table_properties(entry.id), RecordedFile.of(entry.properties_checksum)
        waiting = _NO_LINES if recorded is None else recorded.waiting
        is_written = not waiting or self._finish(entry.id)
        content = read_text(self._storage, path)
        found = self._parsed(content if is_written else self._with_lines(entry.id, content, waiting), path)
        if entry.properties_checksum is not None and TABLE_SCHEMA not in found.texts:
            raise InvalidInput(
                f"{self.path(entry.id)} was emptied or cut: it does not set {TABLE_SCHEMA}, which every table has",
                hint=f"restore it from a copy, or add a line {TABLE_SCHEMA}= with the JSON of the schema",
            )
        return found

    def path(self, table_id: str) -> str:
        return self._storage.locate(paths.table_properties(table_id))

    def content(self, table_id: str) -> bytes:
        return self._storage.read(paths.table_properties(table_id))

    def recorded(self, table_id: str) -> RecordedFile | None:
        return self._record(table_id)[1]

    def _record(self, table_id: str) -> tuple[str | None, RecordedFile | None]:
        entry = None if self._catalog is None else self._catalog.entry(table_id)
        text = None if entry is None else entry.properties_checksum
        return text, RecordedFile.of(text)

    def _note(self, table_id: str, before: str | None, recorded: RecordedFile) -> bool:
        """Record a file unless another process changed the record since it was read; return whether that was done."""
        return self._catalog is None or self._catalog.note_properties(table_id, PropertiesNote(before, recorded.text))

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
        for _ in range(_MOST_TRIES):
            self._write_lines(table_id)
            text, recorded = self._record(table_id)
            as_now = (checksum_of(self.content(table_id)),)
            if recorded is None or not recorded.waiting:
                number = 0 if recorded is None else recorded.number + 1
                if self._note(table_id, text, RecordedFile(as_now, number)):
                    return
        raise self._contended(table_id)

    @contextlib.contextmanager
    def with_commit(
        self, table_id: str, changes: Mapping[str, str | None], *, takes_schema: bool = False
    ) -> Iterator[Announce]:
        """Set properties of a table together with a commit: when the block fails, neither is changed.

        The block commits a change with what it gets, which puts the lines into the catalog with the commit.

        Parameters
        ----------
        changes
            Values that passed `check_changes`, and that fit the table.
        takes_schema
            Whether the file also gets the schema of the new snapshot.
        """
        is_announced = False

        def announce(made: Snapshot) -> PropertiesNote:
            nonlocal is_announced
            is_announced = True
            text, recorded = self._record(table_id)
            recorded = recorded or RecordedFile((checksum_of(self.content(table_id)),))
            lines = Lines(changes, (made.schema_id, made.schema_checksum) if takes_schema else None)
            return PropertiesNote(text, recorded.announcing(lines).text)

        try:
            yield announce
        finally:
            if is_announced:  # and recorded, if it was committed: then an error would say that it failed
                self._finish(table_id)

    def _finish(self, table_id: str) -> bool:
        """Write the waiting lines of a table's file; return whether none wait any more."""
        try:
            self._write_lines(table_id)
        except SleeperError as error:
            logger.warning(
                "table %s: lines of its properties file that belong to a commit are not written yet; "
                "the next process that opens the table tries again: %s",
                *(table_id, error.message),
            )
            return False
        return True

    def _write_lines(self, table_id: str, own: Lines = _NO_LINES) -> None:
        """Write the waiting lines of a table's file, and then a command's own.

        A file that was changed by hand before counts as changed by hand until it is accepted.
        """
        path, mine, is_as_written = paths.table_properties(table_id), "", False
        for _ in range(_MOST_TRIES):
            noted, recorded = self._record(table_id)
            before = read_text(self._storage, path)
            old = checksum_of(before.encode())
            recorded = recorded or RecordedFile((old,))
            is_recorded = old in recorded.checksums
            is_as_written = is_recorded or (old == mine and is_as_written)
            # what this process wrote has taken the place of what another wrote
            undone = recorded.kept if old == mine and not is_recorded else _NO_LINES
            after = self._with_lines(table_id, before, undone.then(recorded.waiting).then(own))
            if after == before and not recorded.waiting and (is_recorded or not mine):
                return
            new = checksum_of(after.encode())
            if is_as_written and new not in recorded.checksums:  # before and after the write, and after a crash
                recorded = replace(recorded, checksums=(old, new))
                if not self._note(table_id, noted, recorded):
                    continue
                noted = recorded.text
            if new != old:
                self._storage.write(path, after.encode())
            left = recorded.written((new,) if is_as_written else recorded.checksums, own)
            if self._is_noted(table_id, noted, left):
                return
            mine = new
        raise self._contended(table_id)

    def _is_noted(self, table_id: str, before: str | None, left: RecordedFile) -> bool:
        """Record a file that is written; return False when another process changed the record meanwhile."""
        try:
            return self._note(table_id, before, left)
        except StorageError as error:  # the file is written, and what is recorded allows it
            logger.warning("table %s: the old checksum of its properties stays recorded: %s", table_id, error.message)
            return True

    def _with_lines(self, table_id: str, content: str, lines: Lines) -> str:
        changes = dict(lines.values)
        if lines.schema is not None:
            properties = self._parsed(content, paths.table_properties(table_id))
            storage = self.storage_of(table_id, properties)
            changes[TABLE_SCHEMA] = schema_line(metadata_files.read_schema(storage, *lines.schema))
        return changed(content, changes) if changes else content

    def _contended(self, table_id: str) -> ConflictError:
        return ConflictError(
            f"other processes changed {self.path(table_id)} in each of {_MOST_TRIES} tries",
            hint="run the command again when fewer processes change the table's properties",
        )

    def storage_of(self, table_id: str, properties: TableProperties) -> Storage:
        """Return the folder of a table's data and metadata: below ``sleeper.table.data.path``, or in the instance.

        `NotAllowed` when it is outside the warehouse, by its address or through a link, and the user has not allowed
        the place.
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
        return (self._storage.root.rpartition("/")[0], *self.permissions.data_paths)

    def new(self, texts: Mapping[str, str]) -> TableProperties:
        """Return the properties of a table that sets some; raise when they contradict each other."""
        return self._whole(TableProperties(texts), "")

    def add(self, table_id: str, content: str) -> None:
        self._storage.write(paths.table_properties(table_id), content.encode())

    def remove(self, table_id: str) -> None:
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

        Of two changes of one property at the same time, either may be the later one.
        """
        self._write_lines(table_id, Lines(changes))

    def change_instance(self, changes: Mapping[str, str | None]) -> None:
        """Set properties of the instance, or unset those that are None. Other lines of its file are kept.

        `InvalidInput`, `NotFound` when a value has the wrong type, or instances have no such property; nothing is
        changed then.
        """
        from sleeper_nb.model.property_guide import check_instance_property

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
    """Return the text of a properties file; `InvalidInput` when it is not UTF-8."""
    try:
        return storage.read(path).decode()
    except UnicodeDecodeError as error:
        hint = r"save it as UTF-8, or write \u00e9 for é"
        raise InvalidInput(f"{storage.locate(path)} is not UTF-8", hint=hint) from error


def check_changes(table: str, before: TableProperties, changes: Mapping[str, str | None]) -> None:
    """Raise unless the properties of a table may be set to these values.

    `InvalidInput` when a value has the wrong type, or the property cannot be set: the hint says what to do instead.
    `NotFound` when there is no such property; the hint names the nearest.

    Parameters
    ----------
    changes
        New values by name; None unsets a property; of the schema, it means that of the table.
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
    if isinstance(part, str):
        return part
    return Action(part.line.format(table=table, value=value), part.python.format(table=table, value=value))


def accepting(table: str) -> Action:
    return Action(f"properties {table} --accept", "table.accept_properties()")


def pending_settings(properties: TableProperties, state: TableState, table: str, path: str) -> tuple[str, ...]:
    """Return a note for each setting of a table's properties file that is not in effect. Pure."""
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
    accept = f"properties {table} --accept, or in Python table.accept_properties()"
    return f"{path} was changed by hand, or damaged: check it, then accept it: {accept}"
