"""The bounds of a place of files: what its metadata may name, and whether another place is inside it."""

from __future__ import annotations

import os
import posixpath

from sleeper_nb.errors import StorageError


def check_path(path: str, root: str) -> None:
    """Raise `StorageError` for a path that leads out of its root: metadata of a warehouse may come from anybody.

    Parameters
    ----------
    path
        Below the root, separated by ``/``; an empty one is the root itself.
    root
        For the message.
    """
    if path and (path.startswith("/") or "\0" in path or not {".", ".."}.isdisjoint(path.split("/"))):
        raise StorageError(
            f"metadata names the file {path!r}, which is not below {root}",
            hint="it was not written by sleeper_nb; nothing was read or changed there",
        )


def lies_within(address: str, root: str) -> bool:
    """Return whether a folder or ``s3://`` address is `root` or below it, once ``..`` and links are followed."""
    return f"{_followed(address)}/".startswith(f"{_followed(root)}/")


def linked_in(folder: str) -> tuple[str, ...]:
    """Return the links that are right in a folder of this machine; none when it is not there."""
    try:
        with os.scandir(folder) as entries:
            return tuple(entry.path for entry in entries if entry.is_symlink())
    except OSError:  # what reads the folder next says why
        return ()


def _followed(address: str) -> str:
    scheme, mark, rest = address.partition("://")
    if mark and scheme != "file":
        return f"{scheme}://{posixpath.normpath(rest)}"
    return os.path.realpath(rest if mark else address).rstrip("/")
