"""Where completion gets names from: the open session of a notebook, or for a shell the files of a warehouse.

Neither starts Spark or creates anything. A session's names come from its catalog and at most one version's metadata. A
shell opens no session, which would take it longer than a user waits after Tab.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.commands.context import Context
from sleeper_nb.commands.home import Home
from sleeper_nb.instance_folder import InstanceFolder, instances_in
from sleeper_nb.loadable import columns_of, columns_of_file, is_loadable
from sleeper_nb.model.savepoints import version_words

if TYPE_CHECKING:
    from sleeper_nb.commands.candidates import KnownNames
    from sleeper_nb.table import Table

_MOST_VERSIONS = 200


@dataclass(slots=True)
class SessionNames:
    """The names in a session, and the variables of a notebook."""

    context: Context

    def tables(self) -> list[str]:
        return [] if self.context.session is None else list(self.context.session.table_names())

    def columns(self, table: str) -> tuple[str, ...]:
        return self._table(table).schema.names

    def row_keys(self, table: str) -> tuple[str, ...]:
        return tuple(each.name for each in self._table(table).schema.row_keys)

    def savepoints(self, table: str) -> list[str]:
        return [point.name for point in self._table(table).inspect.versions().savepoints if point.name]

    def versions(self, table: str) -> list[str]:
        found = self._table(table).inspect.versions()
        points = ((point.id, point.name) for point in found.savepoints)
        return version_words(points, (snapshot.id for snapshot in found.snapshots[:_MOST_VERSIONS]))

    def variables(self, *, with_rows: bool = False) -> list[str]:
        variables = self.context.own_variables()
        return [name for name, value in variables.items() if not with_rows or is_loadable(value)]

    def data_columns(self, source: str) -> tuple[str, ...]:
        return columns_of(self.context.value(source)) if source.startswith("$") else columns_of_file(source)

    def instances(self) -> list[str]:
        return list(self.context.warehouse().instance_names())

    def of_instance(self, instance: str) -> KnownNames:
        opened = self.context.opened()
        return self if instance == opened.instance else FolderNames(Home(opened.warehouse.location), instance)

    def _table(self, name: str) -> Table:
        return self.context.opened().table(name)


@dataclass(frozen=True, slots=True)
class FolderNames:
    """The names in an instance of a warehouse in a folder; of any other warehouse nothing is known."""

    home: Home
    instance: str = "default"

    def tables(self) -> tuple[str, ...]:
        return self._folder.tables()

    def columns(self, table: str) -> list[str]:
        return self._folder.columns(table)

    def row_keys(self, table: str) -> list[str]:
        return self._folder.row_keys(table)

    def savepoints(self, table: str) -> list[str]:
        return self._folder.savepoints(table)

    def versions(self, table: str) -> list[str]:
        return self._folder.versions(table, _MOST_VERSIONS)

    def variables(self, *, with_rows: bool = False) -> tuple[str, ...]:  # noqa: ARG002 - as of a notebook
        return ()

    def data_columns(self, source: str) -> tuple[str, ...]:
        return columns_of_file(source)

    def instances(self) -> list[str]:
        folder = self.home.folder
        return [path.name for path in instances_in(folder)] if folder else []

    def of_instance(self, instance: str) -> FolderNames:
        return FolderNames(self.home, instance)

    @property
    def _folder(self) -> InstanceFolder:
        return InstanceFolder((self.home.folder or Path("/nowhere")) / self.instance)
