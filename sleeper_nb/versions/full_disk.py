"""Free space on a full disk: such work may use the space that the catalog keeps in reserve."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.errors import DiskFull

logger = logging.getLogger(__name__)

T = TypeVar("T")


def free_space_and_retry(catalog: Catalog, work: Callable[[], T]) -> T:
    """Do work that leads to less being stored; when the disk is full, give up the reserve and try again.

    `DiskFull` when the reserve was not enough.

    Parameters
    ----------
    work
        Must be done completely or not at all, so that it can be repeated.
    """
    while True:
        try:
            done = work()
        except DiskFull:
            if not catalog.give_up_room():
                raise
            logger.warning("the disk is full: using the catalog's reserve to free space")
        else:
            catalog.keep_room()
            return done
