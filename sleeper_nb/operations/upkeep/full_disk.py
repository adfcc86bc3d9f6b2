"""Work that frees space, on a disk that has none left: it may use the room that the catalog keeps in reserve."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import DiskFull

T = TypeVar("T")


def freeing_space(catalog: Catalog, work: Callable[[], T]) -> T:
    """Do work that leads to less being stored, and which is done whole or not at all, so that it can be tried again.

    Raises
    ------
    DiskFull
        When the room in reserve was not enough either.
    """
    while True:
        try:
            done = work()
        except DiskFull:
            if not catalog.give_up_room():
                raise
        else:
            catalog.keep_room()
            return done
