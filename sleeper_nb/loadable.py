"""What a load can read, and which columns it has; no row is read. Tab asks it for variables and files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any


def is_data_file(name: str) -> bool:
    """Return whether a load reads files of such a name."""
    from sleeper_nb.load.source_files import SOURCE_ENDINGS, SPREADSHEET_ENDINGS

    return name.lower().endswith((*SOURCE_ENDINGS, *SPREADSHEET_ENDINGS))


def is_loadable(value: Any) -> bool:
    """Return whether a load reads a Python value: a table of some library, rows, or the path of a file."""
    from sleeper_nb.load.lake_tables import is_lake_object
    from sleeper_nb.load.sources import is_table

    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict)
    try:
        return isinstance(value, Path) or is_table(value) or is_lake_object(value)
    except Exception:  # noqa: BLE001 - an object of the user's may fail when it is looked at
        return False


def columns_of(data: Any) -> tuple[str, ...]:
    """Return the columns of a table or of rows, or of the file that a path names; none of what cannot be read."""
    from sleeper_nb.load.lake_tables import is_lake_object, table_of_object
    from sleeper_nb.load.sources import is_rows, names_of

    if is_lake_object(data):
        return tuple(table_of_object(data, None).schema.names)
    if isinstance(data, str | Path):
        return columns_of_file(str(data))
    return tuple(map(str, data[0])) if is_rows(data) and data else names_of(data) or ()


def columns_of_file(path: str) -> tuple[str, ...]:
    """Return the columns of a Parquet file or lake table, or the header of a CSV file; none of what cannot be read."""
    from sleeper_nb.load.lake_tables import is_lake_address, open_lake_table

    if is_lake_address(path):
        return tuple(open_lake_table(path).schema.names)
    file = Path(path).expanduser()
    if file.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return tuple(pq.read_schema(file).names)
    if file.suffix.lower() in {".csv", ".tsv"}:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            return tuple(next(csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ",")))
    return ()
