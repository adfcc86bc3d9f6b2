"""What finds the tables of one SQL statement: by name, at a version, with their system tables behind ``$``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sleeper_nb.model.snapshots import VersionReference
from sleeper_nb.operations.system_tables.definitions import MARK, SYSTEM_TABLES
from sleeper_nb.statement import Lookup, Source

if TYPE_CHECKING:
    from sleeper_nb.table import Table
    from sleeper_nb.table_at import TableAt


def lookup_in(find: Callable[[str], Table | None]) -> Lookup:
    """Return what finds tables and their system tables for one statement.

    Wherever the statement names one version of a table in the same way, it reads the same; so the current version is
    looked up once, whatever is committed meanwhile.

    Parameters
    ----------
    find
        Returns a table by its name; None when there is none.
    """
    found: dict[tuple[str, VersionReference | None], TableAt] = {}

    def source(name: str, asked: VersionReference | None) -> Source | None:
        base, mark, suffix = name.partition(MARK)
        place = (base.casefold(), asked)
        if place not in found:
            here = find(base)
            if here is None:
                return None
            found[place] = here.at_reference(asked)
        return found[place].system_table(suffix) if mark else found[place].source()

    return source


def metadata_lookup(table: TableAt) -> Lookup:
    """Return what finds the system tables of one table, by short names too; without a version, those at its own.

    As in `lookup_in`, a version that one statement names several times is looked up once.
    """
    found: dict[VersionReference | None, TableAt] = {}

    def source(name: str, asked: VersionReference | None) -> Source | None:
        base, mark, suffix = name.rpartition(MARK)
        is_one = base.casefold() == table.name.casefold() if mark else suffix.casefold() in SYSTEM_TABLES
        if not is_one:
            return None
        if asked not in found:
            found[asked] = table.at_reference(asked)
        return found[asked].system_table(suffix)

    return source
