"""`Warehouse`: the instances of a warehouse, which are listed, looked for and created without opening one; `deploy`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleeper_nb.admin import instances
from sleeper_nb.admin.instances import InstanceSummary
from sleeper_nb.arguments import checked
from sleeper_nb.clock import Clock
from sleeper_nb.model.properties import InstanceProperties
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.report import Listing
from sleeper_nb.storage.aws import AwsTarget, Network
from sleeper_nb.storage.filesystem import Storage, open_storage

if TYPE_CHECKING:
    from sleeper_nb.admin.deploy import DeployReport


@checked
def open_warehouse(
    location: str | Path, *, region: str | None = None, endpoint_url: str | None = None, profile: str | None = None
) -> Warehouse:
    """Return a warehouse, for what concerns its instances; nothing is created, and it need not exist.

    Parameters
    ----------
    location, region, endpoint_url, profile
        As `connect` takes them.
    """
    target = AwsTarget(region, endpoint_url, profile)
    return Warehouse(open_storage(location, target), target)


@dataclass(frozen=True, slots=True, repr=False)
class Warehouse:
    """A warehouse: a folder, or a prefix of a bucket, that has instances. Made by `open_warehouse`."""

    _storage: Storage
    _target: AwsTarget

    def __repr__(self) -> str:
        return f"Warehouse({self.location!r})"

    @property
    def location(self) -> str:
        """Its address: an absolute folder, or ``s3://bucket/prefix``."""
        return self._storage.root

    @property
    def aws(self) -> dict[str, Any]:
        """The region, endpoint_url and profile that were given for it."""
        return self._target.given

    def instance_names(self) -> tuple[str, ...]:
        """Return the names of its instances."""
        return instances.instance_names(self._storage)

    def instances(self) -> Listing[InstanceSummary]:
        """Return its instances, each with its tables and the number of their rows; each is opened for that."""
        from sleeper_nb.session.connecting import connect

        summaries = []
        for name in self.instance_names():
            with connect(self.location, name, **self.aws) as session:
                tables = session.tables().to_dict()
            summaries.append(InstanceSummary(name, tuple(tables["table"]), sum(tables["rows"])))
        cells = tuple((each.name, len(each.tables), each.rows, ", ".join(each.tables)) for each in summaries)
        columns = ("instance", "tables", "rows", "names")
        return Listing(tuple(summaries), columns, cells, f"instances of {self.location}")

    @checked
    def add_instance(self, name: str, properties: Mapping[str, str] | None = None) -> str:
        """Create an instance without tables, and return the address of the file of its properties.

        Raises
        ------
        AlreadyExists
            When there is an instance of that name.
        InvalidInput
            When the warehouse is not there, and the name of another one differs by one letter.
        """
        return instances.add_instance(self._storage, name, InstanceProperties(properties or {}))

    @checked
    def check_instance(self, name: str) -> None:
        """Raise `NotFound` when there is no instance of a name, with the nearest: `connect` would create it."""
        instances.check_instance_exists(self._storage, name)

    def check_spelling(self) -> None:
        """Raise `InvalidInput` when it is not there, and the name of a warehouse next to it differs by one letter."""
        instances.check_not_a_slip(self._storage)


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

    instances.check_instance_name(instance)
    network = Network(clock or Clock(), progress or SILENT)
    aws = AwsTarget(region, endpoint_url, profile)
    storage = open_storage(warehouse, aws, network)
    catalog = DynamoDBCatalog(instance, aws, clock=network.clock, network=network, warehouse=storage.root)
    deployment = Deployment(storage, catalog, InstanceProperties(properties or {}))
    try:
        return deployment.plan() if dry_run else deployment.run()
    finally:
        catalog.close()
