"""Open an instance: from the address of a warehouse to a session over its storage and catalog."""

from __future__ import annotations

import getpass
import logging
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sleeper_nb import logs
from sleeper_nb.admin.instances import (
    check_instance_name,
    check_not_a_slip,
    check_other_than_case,
)
from sleeper_nb.admin.property_files import PropertyFiles, read_text
from sleeper_nb.arguments import checked
from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.clock import Clock
from sleeper_nb.engines.cache_folder import cache_folder
from sleeper_nb.engines.spark.instance_place import InstancePlace, InstanceSource
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.permissions import IteratorNames, Permissions
from sleeper_nb.model.properties import METADATA_CACHE, OWN_TABLES, SYNC, TRANSACTION_ITEMS, InstanceProperties
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.session.session import Session
from sleeper_nb.session.table_opener import opener_of
from sleeper_nb.storage import paths
from sleeper_nb.storage.aws import AS_BOTO3_FINDS_IT, AwsTarget, Network
from sleeper_nb.storage.file_cache import FileCache
from sleeper_nb.storage.filesystem import Storage, open_storage
from sleeper_nb.storage.local import LocalPlace
from sleeper_nb.versions.leases import Leases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.engines.components import OpenTable
    from sleeper_nb.engines.spark.source_table import SourceTable
    from sleeper_nb.load.bulk_load import WrittenLoad
    from sleeper_nb.load.load_report import LoadReport
    from sleeper_nb.model.file_reference import FileReference
    from sleeper_nb.model.properties import TableProperties

logger = logging.getLogger(__name__)


@checked
def connect(
    warehouse: str | Path,
    instance: str = "default",
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    iterators: IteratorNames = (),
    data_paths: Iterable[str | Path] = (),
    author: str | None = None,
    new: bool = False,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Session:
    """Open an instance of a warehouse; an empty folder becomes a new warehouse.

    Parameters
    ----------
    warehouse
        A folder, with the catalog in it as a SQLite file; or ``s3://bucket/prefix``, with the catalog in DynamoDB.
    instance
        The instance's name in the warehouse; instances share nothing. With DynamoDB it is part of the names of its
        tables, so a name can be used once in an account and region; another warehouse that gives it is refused.
    region, endpoint_url
        Of S3 and DynamoDB; from the environment or the AWS profile when None.
    profile
        The AWS profile that has the credentials; as boto3 finds them when None: environment, profile or role. They are
        looked up in each process that needs them, and are never kept, shown or sent to another machine.
    spark
        A Spark session to use; otherwise one is started when it is first needed.
    spark_config
        Settings for a Spark session that is started.
    properties
        Values of instance properties (`sleeper_nb.model.properties`), for this session; the others are those of the
        instance's file ``config/instance.properties``, or have their defaults.
    iterators
        The iterators that tables of the warehouse may run (``sleeper.table.iterator.class.name``), by name; or a
        mapping of names to functions of (batch, config). Any other is refused: the properties of a warehouse that
        someone else wrote could name any code on this machine.
    data_paths
        Folders and ``s3://`` addresses outside the warehouse where tables may keep their files
        (``sleeper.table.data.path``). Any other place outside is refused.
    author
        The name that history records for commits; the operating system's user when None.
    new
        Make a warehouse of a folder that is not there, even if another one has a name that differs by one letter;
        without `new`, such a name is refused as a typing error.
    clock, progress
        The source of time and ids, and the progress callback; for tests, magics and the console.
    """
    logs.level_of(os.environ)  # raises for a wrong SLEEPER_LOG
    check_instance_name(instance)
    clock, progress = clock or Clock(), progress or SILENT
    permissions = Permissions.of(iterators, data_paths)
    aws = AwsTarget(region, endpoint_url, profile)
    whole = _folder(warehouse, aws, Network(clock, progress))
    storage = whole.below(instance)
    if not new:
        check_not_a_slip(whole)
    if whole.local and not Path(storage.locate(paths.CATALOG)).exists():
        check_other_than_case(whole, instance)
    PropertyFiles(storage, InstanceProperties({}), permissions).check_own_places()
    settings = _settings(storage, properties or {})
    place = InstancePlace(whole.root, instance, aws, machine=platform.node())
    if storage.local:
        storage = Storage(LocalPlace(storage.root, sync=settings[SYNC]).staying())
        catalog: Catalog = SqliteCatalog(Path(storage.locate(paths.CATALOG)), sync=settings[SYNC])
    else:
        storage = storage.caching(FileCache(cache_folder() / "metadata", settings[METADATA_CACHE], clock))
        catalog = _dynamodb(place, settings, clock, progress, storage)
    logger.debug("opening instance %s at %s", instance, storage.root)
    return Session(
        instance,
        storage,
        catalog,
        clock=clock,
        progress=progress,
        author=author or _user(),
        spark=spark,
        spark_config=spark_config or {},
        source=InstanceSource(replace(place, author=author), storage, open_source_table),
        properties=settings,
        permissions=permissions,
        aws=AS_BOTO3_FINDS_IT if storage.local else aws,
    )


def _dynamodb(
    place: InstancePlace, settings: InstanceProperties, clock: Clock, progress: Progress, storage: Storage
) -> Catalog:
    from sleeper_nb.admin.instances import settle_warehouse
    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

    catalog = DynamoDBCatalog(
        place.instance,
        place.aws,
        clock=clock,
        max_items=settings[TRANSACTION_ITEMS],
        own_tables=settings[OWN_TABLES] == "own",
        on_create=progress.finish,
        network=storage.place.network,
        warehouse=place.warehouse,
    )
    try:
        settle_warehouse(catalog, storage)
    except BaseException:
        catalog.close()
        raise
    return catalog


def open_source_table(place: InstancePlace, name: str) -> SourceTable:
    """Open a table for Spark's data source, in a Spark process; its `close` closes it.

    `NotFound` when there is no such table, or no such instance: a reader creates neither.
    """
    from sleeper_nb.engines.spark.source_table import SourceTable

    storage = open_storage(place.warehouse).below(place.instance)
    if storage.local and not Path(storage.locate(paths.CATALOG)).exists():
        raise NotFound(f"no instance {place.instance!r} in {place.warehouse}", hint="check both names")
    session = _open(place)
    try:
        table = opener_of(session).named(name)
    except BaseException:
        session.close()
        raise
    return SourceTable(_TableInSpark(session, table, place), open_leases)


@dataclass(frozen=True, slots=True)
class _TableInSpark:
    """A table that a session of a Spark process opened."""

    session: Session
    table: OpenTable
    place: InstancePlace

    def properties(self) -> TableProperties:
        return opener_of(self.session).named(self.table.name).properties

    def add_written(self, load: WrittenLoad, write: Callable[[], Iterable[FileReference]]) -> LoadReport:
        from sleeper_nb.table import loading

        return loading.add_written(self.table, load, write)

    def record_failure(self, job_id: str, began: datetime, reason: str) -> None:
        from sleeper_nb.table import loading

        loading.record_failure(self.table, job_id, began, reason)

    def close(self) -> None:
        self.session.close()


@contextmanager
def open_leases(place: InstancePlace) -> Iterator[Leases]:
    """Open the leases of an instance in a Spark process, and release those that it holds at the end."""
    with _open(place) as session:
        yield opener_of(session).components.leases


def _open(place: InstancePlace) -> Session:
    session = connect(
        place.warehouse,
        place.instance,
        **place.aws.here(place.machine).given,
        data_paths=place.permissions.data_paths,
        author=place.author,
    )
    # Those of the session that sent this place, with its iterators.
    opener_of(session).components.property_files.permissions = place.permissions
    return session


def _folder(warehouse: str | Path, aws: AwsTarget, network: Network) -> Storage:
    whole = open_storage(warehouse, aws, network)
    if whole.local and Path(whole.root).is_file():
        raise InvalidInput(f"{warehouse} is a file, not a folder", hint="give the folder of a warehouse, or a new one")
    return whole


def _settings(storage: Storage, given: Mapping[str, str]) -> InstanceProperties:
    try:
        content = read_text(storage, paths.INSTANCE_PROPERTIES)
    except NotFound:
        return InstanceProperties(given)
    kept = InstanceProperties.from_text(content, storage.locate(paths.INSTANCE_PROPERTIES))
    return InstanceProperties({**kept.texts, **given})


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        return None
