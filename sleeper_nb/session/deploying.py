"""`deploy` plans and makes what an instance needs on AWS."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sleeper_nb.admin.instances import check_instance_name
from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.model.properties import InstanceProperties
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.storage.aws import Network
from sleeper_nb.storage.aws_target import AwsTarget
from sleeper_nb.storage.filesystem import open_storage

if TYPE_CHECKING:
    from sleeper_nb.admin.deploy import DeployReport


@checked
def deploy(
    warehouse: str,
    instance: str = "default",
    *,
    region: str | None = None,
    endpoint_url: str | None = None,
    profile: str | None = None,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = True,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> DeployReport:
    """Plan or make what an instance needs on AWS: bucket, DynamoDB tables and properties.

    Parameters
    ----------
    warehouse, instance, region, endpoint_url, profile
        As `connect` takes them; the warehouse is in a bucket.
    properties
        Those of the instance's properties file, if that is to be made.
    dry_run
        Whether to return the plan alone, which is the default. Otherwise what is missing is made; what is there stays,
        so running it again is safe.

    Raises
    ------
    InvalidInput
        When the warehouse is a folder, or a property does not exist.
    StorageError
        When S3 or DynamoDB refuse.
    """
    from sleeper_nb.admin.deploy import Deployment
    from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog

    check_instance_name(instance)
    network = Network(clock or Clock(), progress or SILENT)
    aws = AwsTarget(region, endpoint_url, profile)
    storage = open_storage(warehouse, aws, network)
    catalog = DynamoDBCatalog(instance, aws, clock=network.clock, network=network, warehouse=storage.root)
    deployment = Deployment(storage, catalog, InstanceProperties(properties or {}))
    try:
        return deployment.plan() if dry_run else deployment.run()
    finally:
        catalog.close()
