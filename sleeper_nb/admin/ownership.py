"""Which warehouse an instance on DynamoDB belongs to: its name is unique in an account and region, not in a bucket."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from sleeper_nb.errors import AccessDenied, OfOtherWarehouse
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

logger = logging.getLogger(__name__)


def check_warehouse(catalog: DynamoDBCatalog, storage: Storage) -> bool:
    """Check that an instance may be used with the files of this warehouse; nothing is changed.

    The catalog says whose it is. One that an earlier release made does not; then its tables' files decide.

    `OfOtherWarehouse` when it belongs to another warehouse, or none of its tables has its files here.

    Returns
    -------
    Whether the catalog has no warehouse yet, and all it lists is here: then it may be claimed.
    """
    if not catalog.lacks_warehouse:
        return False
    from sleeper_nb.catalog.dynamodb.catalog import OTHER_INSTANCE

    ids = {entry.id for entry in catalog.tables()}
    if not ids:
        return storage.has(paths.INSTANCE_PROPERTIES)
    here = {file.path for file in storage.list(paths.TABLES)}
    missing = {each for each in ids if paths.table_properties(each) not in here}
    if missing == ids:
        raise OfOtherWarehouse(
            f"instance {catalog.instance!r} of this account and region belongs to another warehouse: "
            f"none of its tables has its files in {catalog.warehouse}",
            hint=("choose another name: ", OTHER_INSTANCE, "; or open the warehouse of its tables"),
        )
    if missing:
        logger.warning("instance %s has tables of several warehouses; delete none here", catalog.instance)
    return not missing


def settle_warehouse(catalog: DynamoDBCatalog, storage: Storage) -> None:
    """Check as `check_warehouse` does, and claim what may be claimed, if the keys may write."""
    if check_warehouse(catalog, storage):
        with contextlib.suppress(AccessDenied):
            catalog.claim()
