"""Recognise the folders of tables in lake formats, whose data files alone are not the rows of the table.

Some of the files have rows that the table no longer has, and only its metadata says which.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from sleeper_nb.errors import InvalidInput

_MARKS: Final = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_PAIMON: Final = ("snapshot", "schema", "manifest")
_ICEBERG: Final = "metadata"
_DUCKLAKE: Final = re.compile(r"ducklake-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-delete)?\.parquet")


def check_no_lake_table(
    files: Iterable[str], names: Callable[[str], Collection[str]], locate: Callable[[str], str] = str
) -> None:
    """Raise `InvalidInput` if one of some files belongs to a table in a lake format.

    Parameters
    ----------
    files
        Their paths.
    names
        Returns the names of what is in a folder; at least of folders, and of the files in a folder ``metadata``.
    locate
        Returns the address of a folder, for users.
    """
    seen: set[PurePosixPath] = set()
    for path in map(PurePosixPath, files):
        if _DUCKLAKE.fullmatch(path.name):
            raise _refused("DuckLake", locate(str(path.parent)))
        for folder in path.parents:
            if folder in seen:
                break
            seen.add(folder)
            if kind := _kind(folder, names):
                raise _refused(kind, locate(str(folder)))


def check_no_local_lake_table(files: Iterable[str]) -> None:
    """Raise `InvalidInput` if one of some files of this machine belongs to a table in a lake format."""
    check_no_lake_table(files, _local_names)


def _local_names(folder: str) -> Collection[str]:
    if Path(folder).name == _ICEBERG:
        return [each.name for each in Path(folder).iterdir()] if os.access(folder, os.R_OK) else ()
    return [name for name in (*_MARKS, *_PAIMON, _ICEBERG) if os.path.isdir(f"{folder}/{name}")]  # noqa: PTH112


def _kind(folder: PurePosixPath, names: Callable[[str], Collection[str]]) -> str:
    """Return the format of the table whose folder it is; "" for any other folder."""
    here = names(str(folder))
    if mark := next((name for name in _MARKS if name in here), None):
        return _MARKS[mark]
    if all(name in here for name in _PAIMON):
        return "Paimon"
    is_iceberg = _ICEBERG in here and any(each.endswith(".metadata.json") for each in names(str(folder / _ICEBERG)))
    return "Iceberg" if is_iceberg else ""


def _refused(kind: str, folder: str) -> InvalidInput:
    return InvalidInput(
        f"{folder} is a {kind} table: some of its files may have deleted rows",
        hint=f"read it with a library for {kind} and load the result; to load one file anyway, give its name",
    )
