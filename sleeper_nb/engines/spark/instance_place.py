"""Where an instance is: the value with which another process opens it, and the format by which Spark knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions
from sleeper_nb.storage.aws import AS_BOTO3_FINDS_IT, AwsTarget
from sleeper_nb.storage.filesystem import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.engines.spark.source_table import Opener

ADDRESS: Final = ("warehouse", "instance")
AWS: Final = ("region", "endpoint-url", "profile")
"""The options of Spark's data source that say where an instance is."""


@dataclass(frozen=True, slots=True)
class InstancePlace:
    """Where an instance is, as `sleeper_nb.connect` takes it; all that another process needs to open it.

    Parameters
    ----------
    warehouse
        An absolute folder, or ``s3://bucket/prefix``.
    instance
        Its name below the warehouse.
    aws
        Where S3 and DynamoDB are; the other process finds what is None. Keys are never part of this value.
    permissions
        What the session's user lets the properties of its tables name.
    author
        The name that history records for commits; the operating system's user when None.
    machine
        The machine that has the AWS profile.
    """

    warehouse: str
    instance: str
    aws: AwsTarget = AS_BOTO3_FINDS_IT
    permissions: Permissions = NOTHING_ALLOWED
    author: str | None = None
    machine: str = ""

    def overridden(self, options: Mapping[str, str]) -> InstancePlace:
        """Return the place with the parts that options name; permissions do not carry over to another instance."""
        aws = AwsTarget(*map(options.get, AWS))
        place = {name: options[name] for name in ADDRESS if name in options}
        other = replace(self, aws=self.aws.updated(aws), **place)  # type: ignore[arg-type]
        return self if other == self else replace(other, permissions=NOTHING_ALLOWED)


@dataclass(frozen=True, slots=True)
class InstanceSource:
    """An instance as Spark's ``format("sleeper")``."""

    place: InstancePlace
    storage: Storage
    opener: Opener

    def register(self, spark: SparkSession, permissions: Permissions) -> None:
        """Make the format known to a Spark session, with the user's permissions."""
        from sleeper_nb.engines.spark import source

        place, access = self.place, self.storage.access
        region = place.aws.region if access is None else access.region  # it may be set on this machine only
        there = replace(place, aws=replace(place.aws, region=region), permissions=permissions)
        source.register(spark, there, self.opener, self.storage)
