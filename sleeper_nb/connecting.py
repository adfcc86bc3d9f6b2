"""`connect`: from an address to the storage and the catalog that are there."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb.catalog.base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import Clock
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.properties import OWN_TABLES, SYNC, TRANSACTION_ITEMS, InstanceProperties
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.session import Session
from sleeper_nb.storage import paths
from sleeper_nb.storage.filesystem import Storage, open_storage
from sleeper_nb.storage.local import LocalPlace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INSTANCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def connect(
    warehouse: str | Path,
    instance: str = "default",
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    author: str | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Session:
    """Open an instance of a warehouse; a new folder is a new warehouse.

    Parameters
    ----------
    warehouse
        A folder, with the catalog in it as a SQLite file; or ``s3://bucket/prefix``, with the catalog in DynamoDB.
    instance
        Its name below the warehouse; instances share nothing. With DynamoDB it is part of the names of its tables, so
        one account and region has one instance of a name.
    region, endpoint_url
        Of S3 and DynamoDB; from the environment or the AWS profile when None. Keys always come from there.
    spark
        A Spark session to use; otherwise one is started when it is first needed.
    spark_config
        Settings for a session that is started.
    properties
        Values of instance properties (`sleeper_nb.model.properties`), for this session; the others are those of the
        instance's file ``config/instance.properties``, or have their defaults.
    author
        Who history says it was; the name of the operating system's user when None.
    clock, progress
        For tests and faces.
    """
    if not _INSTANCE.fullmatch(instance):
        raise InvalidInput(f"no instance can be called {instance!r}", hint="use letters, digits, - and _")
    storage = open_storage(warehouse, region=region, endpoint_url=endpoint_url).below(instance)
    settings = _settings(storage, properties or {})
    clock, progress = clock or Clock(), progress or SILENT
    catalog: Catalog
    if storage.local:
        storage = Storage(LocalPlace(storage.root, sync=settings[SYNC]))
        catalog = SqliteCatalog(Path(storage.locate(paths.CATALOG)), sync=settings[SYNC])
    else:
        from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

        catalog = DynamoDBCatalog(
            instance,
            region=region,
            endpoint_url=endpoint_url,
            clock=clock,
            max_items=settings[TRANSACTION_ITEMS],
            own_tables=settings[OWN_TABLES] == "own",
            on_create=progress.finish,
        )
    return Session(
        instance, storage, catalog, clock=clock, progress=progress, author=author or _user(),
        spark=spark, spark_config=spark_config or {},
    )  # fmt: skip


def _settings(storage: Storage, given: Mapping[str, str]) -> InstanceProperties:
    try:
        content = storage.read(paths.INSTANCE_PROPERTIES).decode()
    except NotFound:
        return InstanceProperties(given)
    kept = InstanceProperties.from_text(content, storage.locate(paths.INSTANCE_PROPERTIES))
    return InstanceProperties({**kept.texts, **given})


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        return None
