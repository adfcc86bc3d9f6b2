"""The files of properties of an instance and its tables: read whole, and changed whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sleeper_nb.catalog.catalog_base import Catalog, TableEntry
from sleeper_nb.errors import Action, HintParts, InvalidInput, NotAllowed, NotFound, StorageError
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
)
from sleeper_nb.model.state import TableState
from sleeper_nb.operations.administration.property_listing import check_of_instance
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage, open_near
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.storage.places import lies_within, linked_in

_ONCE = (
    "the split points were read when the table was created",
    (Action("split {table} --at KEY", "table.split_partitions(at=KEY)"), ", or reinitialise the table"),
)
_MIGRATE = Action("migrate {table} --to {value}", "session.migrate_state_store('{table}', '{value}')")
_ALTER = Action("alter {table} …", "table.alter(…)")
_RENAME = Action("rename {table} {value}", "session.rename_table('{table}', '{value}')")
_ONLINE = Action("online {table}", "table.set_online()")
_OFFLINE = Action("offline {table}", "table.set_online(False)")
_FIXED: dict[str, tuple[str, HintParts]] = {
    STATE_STORE: ("metadata is moved, with its history", (_MIGRATE,)),
    SPLITS_FILE: _ONCE,
    SPLITS_BASE64: _ONCE,
    DATA_PATH: ("the files of the table are where they were written", ("create a table there, and load it",)),
    TABLE_SCHEMA: (
        "rows were written in the schema that the table has",
        (_ALTER, " changes columns; or edit the file of its properties and reinitialise the table"),
    ),
    "sleeper.table.name": ("the catalog keeps it", (_RENAME,)),
    "sleeper.table.online": ("the catalog keeps it", (_ONLINE, ", or ", _OFFLINE)),
    "sleeper.table.id": ("the id of a table never changes", ("leave it out",)),
}


class PropertyFiles:
    """The properties of the tables of an instance, as their files say now.

    Parameters
    ----------
    storage
        The instance's folder.
    instance
        What the instance sets; its defaults count where a table sets nothing.
    permissions
        What the user allows the properties to name.
    catalog
        Keeps the checksum of each file as a command wrote it last. None keeps none.
    """

    def __init__(
        self,
        storage: Storage,
        instance: InstanceProperties,
        permissions: Permissions = NOTHING_ALLOWED,
        catalog: Catalog | None = None,
    ) -> None:
        self._storage, self.instance, self.permissions, self._catalog = storage, instance, permissions, catalog

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
        found = self.of_table(entry.id)
        if entry.properties_checksum is not None and TABLE_SCHEMA not in found.texts:
            raise InvalidInput(
                f"{self.path(entry.id)} was emptied or cut: it does not set {TABLE_SCHEMA}, which every table has",
                hint=f"restore it from a copy, or write {TABLE_SCHEMA}= and the JSON of the schema in one line into it",
            )
        return found

    def path(self, table_id: str) -> str:
        """Return the address of the file of a table's properties."""
        return self._storage.locate(paths.table_properties(table_id))

    def content(self, table_id: str) -> bytes:
        """Return the content of the file of a table's properties."""
        return self._storage.read(paths.table_properties(table_id))

    def recorded(self, table_id: str) -> str | None:
        """Return the checksum of the file of a table's properties, as a command wrote it last."""
        entry = None if self._catalog is None else self._catalog.entry(table_id)
        return None if entry is None else entry.properties_checksum

    def accept(self, table_id: str) -> None:
        """Record the file of a table's properties as it is."""
        if self._catalog is not None:
            self._catalog.note_properties(table_id, checksum_of(self.content(table_id)))

    def _replace(self, table_id: str, before: str, after: str) -> None:
        """Write the file; a change by hand that it had stays one, and is told of until it is accepted."""
        was_recorded = self.recorded(table_id) in (None, checksum_of(before.encode()))
        self._storage.write(paths.table_properties(table_id), after.encode())
        if was_recorded and self._catalog is not None:
            self._note(self._catalog, table_id, before, after)

    def _note(self, catalog: Catalog, table_id: str, before: str, after: str) -> None:
        """Record a file that was changed; when that fails, the file is what it was before."""
        checksum = checksum_of(after.encode())
        try:
            catalog.note_properties(table_id, checksum)
        except StorageError:
            if self.recorded(table_id) == checksum:
                return  # only the answer was lost
            self._storage.write(paths.table_properties(table_id), before.encode())
            raise

    def storage_of(self, table_id: str, properties: TableProperties) -> Storage:
        """Return where a table's data and metadata are: ``sleeper.table.data.path``, or with the others.

        Raises
        ------
        NotAllowed
            When that is outside the warehouse, by its address or by a link, and the user has not allowed the place.
        """
        found = self._place(properties).below(table_id)
        if found.local:
            for folder in ("", *paths.FOLDERS):
                self._check_place(found.locate(folder))
            for linked in linked_in(found.locate("data")):
                self._check_place(linked)
        return found

    def place_of(self, table_id: str) -> Storage:
        """Return the folder that a table's folder is in; the instance's when the table's file is gone already."""
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

        They may have come with the warehouse; a file that a call or a command names is the user's own choice.
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
        """Raise `NotAllowed` when a link leads the instance's catalog or properties out of the warehouse."""
        for path in (paths.CATALOG, *paths.CONFIG) if self._storage.local else ():
            self._check_place(self._storage.locate(path))

    def _check_place(self, address: str) -> None:
        if not self._may_use(address):
            raise place_not_allowed(address)

    def _may_use(self, address: str) -> bool:
        warehouse = self._storage.root.rpartition("/")[0]
        return any(lies_within(address, root) for root in (warehouse, *self.permissions.data_paths))

    def new(self, texts: Mapping[str, str]) -> TableProperties:
        """Return the properties of a table that sets some; raise when they contradict each other."""
        return self._whole(TableProperties(texts), "")

    def add(self, table_id: str, content: str) -> None:
        """Write the file of a new table."""
        self._storage.write(paths.table_properties(table_id), content.encode())

    def remove(self, table_id: str) -> None:
        """Delete the file of a table, if it is there."""
        self._storage.delete(paths.table_properties(table_id))

    def change(
        self, table_id: str, changes: Mapping[str, str | None], check: Callable[[TableProperties], object]
    ) -> TableProperties:
        """Set properties of a table, or unset those that are None, and return all; other lines of its file stay.

        The file is replaced as a whole; of two changes at once, the later one may take back the earlier.

        Parameters
        ----------
        table_id
            The table.
        changes
            What `check_changes` has let pass.
        check
            Raises when the properties do not fit the table. Nothing is changed then.
        """
        path = paths.table_properties(table_id)
        before = read_text(self._storage, path)
        after = changed(before, changes)
        found = self._parsed(after, path)
        check(found)
        if after != before:
            self._replace(table_id, before, after)
        return found

    def change_instance(self, changes: Mapping[str, str | None]) -> None:
        """Set properties of the instance, or unset those that are None; otherwise as `change`.

        Raises
        ------
        InvalidInput, NotFound
            When a value is ill-typed, or no instance has such a property. Nothing is changed then.
        """
        for name in changes:
            check_of_instance(name)
        InstanceProperties({name: text for name, text in changes.items() if text is not None})
        path = paths.INSTANCE_PROPERTIES
        try:
            before = read_text(self._storage, path)
        except NotFound:  # an instance that was never told anything
            before = ""
        after = changed(before, changes)
        found = InstanceProperties.from_text(after, self._storage.locate(path))  # or raises, of what else stands there
        TableProperties({}, found.table_defaults).check_together()
        if after != before:
            self._storage.write(path, after.encode())
        told = {**self.instance.texts, **changes}
        self.instance = InstanceProperties({name: text for name, text in told.items() if text is not None})

    def _parsed(self, content: str, path: str) -> TableProperties:
        source = self._storage.locate(path)
        return self._whole(TableProperties.from_text(content, source), source)

    def _whole(self, properties: TableProperties, source: str) -> TableProperties:
        found = replace(properties, defaults=self.instance.table_defaults, permissions=self.permissions)
        found.check_together(source)
        return found


def read_text(storage: Storage, path: str) -> str:
    """Return the text of a file of properties.

    Raises
    ------
    InvalidInput
        When it is no UTF-8.
    """
    try:
        return storage.read(path).decode()
    except UnicodeDecodeError as error:
        hint = r"save it as UTF-8, or write \u00e9 for é"
        raise InvalidInput(f"{storage.locate(path)} is no UTF-8", hint=hint) from error


def check_changes(table: str, before: TableProperties, changes: Mapping[str, str | None]) -> None:
    """Raise unless properties of a table may have these values from now on.

    Parameters
    ----------
    table
        Its name, for hints.
    before
        What counts now.
    changes
        New values by name; None unsets one.

    Raises
    ------
    InvalidInput
        When a value is ill-typed, or a property is never changed by itself: the hint says what to type instead.
    NotFound
        When there is no such property; the nearest is named.
    """
    for name, text in changes.items():
        known = name in before.defined
        if name in _FIXED and not (known and text == before.text(name)):
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


# What the file of a table's properties says that does not count, or was not written by a command. Pure.


def waiting(properties: TableProperties, state: TableState, table: str, path: str) -> tuple[str, ...]:
    """Return what the file of a table's properties says that the current version does not do.

    Parameters
    ----------
    properties
        As the file says.
    state
        The current version.
    table, path
        The table's name, and the address of the file.
    """
    notes = []
    now = properties.processed_as(state.processing)
    for name in PROCESSING_PROPERTIES:
        said, counts = properties.text(name), now.text(name)
        if said != counts:
            which = f"says {name}={said}" if said else f"does not set {name}"
            notes.append(
                f"{path} {which}, but {counts or 'nothing'} is in effect. To use the file: properties {table} "
                f"--accept, or in Python table.accept_properties(). To keep {counts or 'nothing'}: properties {table} "
                f"'{name}={counts}'"
            )
    schema = properties[TABLE_SCHEMA]
    if schema not in (None, state.schema):
        notes.append(f"{path} has another {TABLE_SCHEMA} than the table, which gets it when you reinitialise it")
    return tuple(notes)


def edited(content: bytes, recorded: str | None, table: str, path: str) -> str | None:
    """Return what is said of a file that is not as a command wrote it last; None when it is, or none is known."""
    if recorded is None or checksum_of(content) == recorded:
        return None
    accept = f"properties {table} --accept, or in Python table.accept_properties()"
    return f"{path} was changed by hand, or damaged: look through it, then accept it: {accept}"
