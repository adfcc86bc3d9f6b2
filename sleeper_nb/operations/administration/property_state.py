"""What the file of a table's properties says that does not count, or was not written by a command. Pure."""

from __future__ import annotations

from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.model.processing import PROCESSING_PROPERTIES
from sleeper_nb.model.properties import TABLE_SCHEMA, TableProperties
from sleeper_nb.model.state import TableState


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
                f"{path} {which}, but {counts or 'nothing'} counts: properties {table} --accept takes the file over, "
                f"properties {table} '{name}={counts}' mends it"
            )
    schema = properties[TABLE_SCHEMA]
    if schema not in (None, state.schema):
        notes.append(f"{path} has another {TABLE_SCHEMA} than the table: reinitialise {table} takes it over")
    return tuple(notes)


def edited(content: bytes, recorded: str | None, table: str, path: str) -> str | None:
    """Return what is said of a file that is not as a command wrote it last; None when it is, or none is known."""
    if recorded is None or checksum_of(content) == recorded:
        return None
    return f"{path} was changed by hand, or damaged: look through it, then properties {table} --accept"
