"""`deploy` plans and makes what an instance needs on AWS; `doctor` looks at all that a warehouse needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import InstanceProperties
from sleeper_nb.operations.administration.aws_roles import ROLES
from sleeper_nb.operations.administration.instances import check_instance_name
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.session.diagnosis import DoctorReport, Patient, examine
from sleeper_nb.storage.aws import Network
from sleeper_nb.storage.filesystem import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
    from sleeper_nb.operations.administration.deploy import DeployReport

_QUICK = 1
"""A quota of lost answers that lets no request be sent again: the doctor says at once that there is no answer."""


@checked
def deploy(
    warehouse: str,
    instance: str = "default",
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    properties: Mapping[str, str] | None = None,
    role: str | None = None,
    dry_run: bool = True,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> DeployReport:
    """Plan or make what an instance needs on AWS: bucket, DynamoDB tables and properties; and the policies to use it.

    Parameters
    ----------
    warehouse, instance, region, endpoint_url, profile
        As `connect` takes them; the warehouse is in a bucket.
    properties
        Those of the instance's properties file, if that is to be made.
    role
        Whose policy is shown: ``reader``, ``writer`` or ``maintainer``; all three when None.
    dry_run
        Whether to return the plan alone, which is the default. Otherwise what is missing is made; what is there stays,
        so running it again is safe.

    Raises
    ------
    InvalidInput
        When the warehouse is a folder, or the role or a property does not exist.
    StorageError
        When S3 or DynamoDB refuse.
    """
    from sleeper_nb.operations.administration.deploy import Deployment

    check_instance_name(instance)
    if role is not None and role not in ROLES:
        raise InvalidInput(f"no role {role!r}", hint=f"choose {', '.join(ROLES)}")
    network = Network(clock or Clock(), progress or SILENT)
    storage = open_storage(warehouse, region=region, endpoint_url=endpoint_url, profile=profile, network=network)
    catalog = _catalog(storage.root, instance, network, region=region, endpoint_url=endpoint_url, profile=profile)
    roles = ROLES if role is None else (role,)
    deployment = Deployment(storage, catalog, InstanceProperties(properties or {}), roles)
    try:
        return deployment.plan() if dry_run else deployment.run()
    finally:
        catalog.close()


@checked
def doctor(
    warehouse: str | Path = "./warehouse",
    instance: str = "default",
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    spark: SparkSession | None = None,
    spark_config: Mapping[str, str] | None = None,
    cluster: bool = False,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> DoctorReport:
    """Look at Java, Spark, packages, credentials, clocks, S3, DynamoDB and permissions; nothing is opened or changed.

    Parameters
    ----------
    warehouse, instance, region, endpoint_url, profile, spark, spark_config
        As `connect` takes them.
    cluster
        Whether to look at Spark's workers too, by a small task; Spark is started and stopped for it if there is none.

    Returns
    -------
    DoctorReport
        A line for each, and what mends it; what failed is in `failed`. It takes seconds, also without a network.
    """
    from sleeper_nb.engines.spark.engine import SparkEngine

    clock, config = clock or Clock(), dict(spark_config or {})
    engine = partial(SparkEngine, spark, config=config, clock=clock, progress=progress or SILENT)
    with patient_of(warehouse, instance, clock, region=region, endpoint_url=endpoint_url, profile=profile) as patient:
        return examine(patient.with_spark(config, engine, spark, stops=True), cluster=cluster)


@contextmanager
def patient_of(warehouse: str | Path, instance: str, clock: Clock, **aws: str | None) -> Iterator[Patient]:
    """Give what the doctor looks at; its connections give up at the first lost answer, and are closed at the end."""
    network = Network(clock, quota=_QUICK)
    storage = open_storage(warehouse, network=network, **aws)
    catalog = None if storage.local else _catalog(storage.root, instance, network, **aws)
    try:
        yield Patient(storage, instance, catalog, clock, aws.get("profile"))
    finally:
        if catalog is not None:
            catalog.close()


def _catalog(warehouse: str, instance: str, network: Network, **aws: Any) -> DynamoDBCatalog:
    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

    return DynamoDBCatalog(instance, clock=network.clock, network=network, warehouse=warehouse, **aws)
