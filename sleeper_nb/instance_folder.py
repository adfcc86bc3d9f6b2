"""An instance in a folder, by its files alone: the names in it, for Tab in a shell, which opens no session."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from sleeper_nb.catalog.sqlite_file import NamesInFile
from sleeper_nb.model.config_text import entries
from sleeper_nb.model.properties import DATA_PATH
from sleeper_nb.model.savepoints import version_words
from sleeper_nb.storage import paths

_KEYS = "rowKeyFields"
_FIELDS = (_KEYS, "sortKeyFields", "valueFields")


def instances_in(warehouse: Path) -> list[Path]:
    """Return the folders of the instances of a warehouse in a folder, by name."""
    return sorted(path.parent for path in warehouse.glob(f"*/{paths.CATALOG}"))


@dataclass(frozen=True, slots=True)
class InstanceFolder:
    """The names in an instance in a folder; none of what is not there, and nothing is created."""

    path: Path

    @property
    def is_instance(self) -> bool:
        return (self.path / paths.CATALOG).is_file()

    def tables(self) -> tuple[str, ...]:
        return self._catalog.tables()

    def columns(self, table: str) -> list[str]:
        return self._fields(table, *_FIELDS)

    def row_keys(self, table: str) -> list[str]:
        return self._fields(table, _KEYS)

    def savepoints(self, table: str) -> list[str]:
        return [name for _, name in self._catalog.savepoints(table) if name]

    def versions(self, table: str, most: int) -> list[str]:
        """Return what can follow the @ of a table: savepoints, and the newest snapshots."""
        return version_words(self._catalog.savepoints(table), self._catalog.snapshots(table, most))

    @property
    def _catalog(self) -> NamesInFile:
        return NamesInFile(self.path / paths.CATALOG)

    def _fields(self, table: str, *parts: str) -> list[str]:
        found = self._catalog.current_schema(table)
        if found is None:
            return []
        table_id, schema_id = found
        schema = json.loads((self._place_of(table_id) / table_id / paths.schema(schema_id)).read_text(encoding="utf-8"))
        return [each["name"] for part in parts for each in schema.get(part, ())]

    def _place_of(self, table_id: str) -> Path:
        """Return the folder that contains a table's folder."""
        text = (self.path / paths.table_properties(table_id)).read_text(encoding="utf-8")
        set_to = {entry.name: entry.value for entry in entries(text)}  # as text: all rules of properties bring Arrow
        return Path(set_to.get(DATA_PATH) or self.path)
