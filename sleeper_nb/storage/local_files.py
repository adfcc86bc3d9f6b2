"""Local files that users and metadata name: their paths, and which of them are never read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import LOCAL_FILES
from sleeper_nb.storage.paths import CATALOG

_SYSTEM: Final = ("/proc", "/sys", "/dev")
_IN_MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder for files of users, which are kept in memory
_DATA_HINT: Final = "name a file of data"


def no_local_files(path: str) -> InvalidInput:
    hint = f"set the instance property {LOCAL_FILES} to true to allow it"
    return InvalidInput(f"SQL may not read local files here: {path!r}", hint=hint)


def absolute(path: str) -> str:
    """Return the absolute path of a local file or pattern that a user names; any other address stays as it is.

    Only in a ``file:`` address ``%20`` is a space.
    """
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    return path if "://" in path else os.path.abspath(Path(path).expanduser())  # noqa: PTH100 - keeps patterns


def named_in_metadata(location: str) -> str:
    """Return the path of a local file that metadata of Iceberg name; any other address stays as it is.

    Engines write the path behind ``file:`` as it is: ``p=a%2Fb`` is the name of a folder.
    """
    return "/" + location[5:].lstrip("/") if location.startswith("file:") else location


def as_pattern(path: str) -> str:
    """Return DuckDB's pattern of one file: ``a[[]1].csv`` for ``a[1].csv``, which would mean ``a1.csv``."""
    return re.sub(r"[*?[]", r"[\g<0>]", path)


def is_of_system(path: str) -> bool:
    """Return whether a path is, or a link leads to, a file of the operating system that is no data."""
    for named in (Path(path), Path(os.path.realpath(path))):
        is_system = any(named.is_relative_to(folder) for folder in _SYSTEM)
        if is_system and not named.is_relative_to(_IN_MEMORY):
            return True
    return False


def check_no_system(path: str) -> None:
    if is_of_system(path):
        raise InvalidInput(f"SQL may not read {path!r}, a file of the operating system", hint=_DATA_HINT)


def check_outside(path: str) -> None:
    """Refuse the files of an instance of a warehouse, and files of the operating system that are no data.

    When another database opens SQLite's file and closes it again, this process loses SQLite's locks; and one data file
    is no version of a table. Files below ``/proc`` show the secrets of this process.

    Raises
    ------
    InvalidInput
        Naming the file, and the instance's folder.
    """
    real = Path(os.path.realpath(path))
    check_no_system(path)
    for folder in (real, *real.parents):
        if (folder / CATALOG).is_file():
            hint = "read the table by its name, or a system table: flights$files"
            raise InvalidInput(f"SQL may not read {path!r}, a file of the instance in {folder}", hint=hint)
