"""Deploy an instance: plan and make its bucket, DynamoDB tables and properties file."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sleeper_nb.admin.instances import check_warehouse
from sleeper_nb.admin.property_files import read_text
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import no_keys, no_region
from sleeper_nb.catalog.dynamodb.items import KeyedTable
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.properties import OWN_TABLES, InstanceProperties
from sleeper_nb.report import Grid, Report, nothing_done
from sleeper_nb.state_store.dynamodb.reference_items import shared_tables
from sleeper_nb.storage import paths
from sleeper_nb.storage.aws import AS_BOTO3_FINDS_IT, AwsTarget
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.storage.s3 import S3Place

logger = logging.getLogger(__name__)

EXISTS, MISSING, MADE, NOT_CHECKED = "exists", "to make", "made", "not checked (no keys)"


@dataclass(frozen=True, slots=True)
class DeployStep:
    """A thing that an instance needs: its kind, its name, and its state.

    The state is ``exists``, ``to make`` or ``made``; ``not checked (no keys)`` where AWS could not be asked.
    """

    kind: str
    name: str
    state: str


@dataclass(frozen=True, slots=True, repr=False)
class DeployReport(Report):
    """What an instance needs on AWS, and what of it was made.

    Parameters
    ----------
    steps
        What it needs, in the order in which it is made.
    """

    location: str
    steps: tuple[DeployStep, ...]
    dry_run: bool
    again: str = ""
    prefix: str = ""
    aws: AwsTarget = AS_BOTO3_FINDS_IT

    @property
    def is_complete(self) -> bool:
        return all(step.state in {EXISTS, MADE} for step in self.steps)

    def grid(self) -> Grid:
        """Return the steps."""
        rows = tuple((step.kind, step.name, step.state) for step in self.steps)
        footer = "Billed per request. While unused, only stored data costs money."
        if self.dry_run and not self.is_complete:
            footer = f"{footer}\n{nothing_done(Action(self.again, 'dry_run=False'), self.prefix)}"
        elif self.is_complete:
            footer = f"{footer}\nopen it: {self._opening()}"
        title = f"{'plan for' if self.dry_run else 'deployed'} {self.location}"
        return Grid(("what", "name", "state"), rows, title, footer)

    def _opening(self) -> str:
        warehouse, _, instance = self.location.rpartition("/")
        python = f"sleeper_nb.connect({warehouse!r}, {instance!r}{self.aws.arguments})"
        line = f"use {shlex.quote(warehouse)} --instance {instance}{self.aws.options}"
        return Action(line, python).text(self.prefix)

    def to_dict(self) -> dict[str, Any]:
        steps = [{"what": step.kind, "name": step.name, "state": step.state} for step in self.steps]
        return {"location": self.location, "steps": steps, "dry_run": self.dry_run}


@dataclass(frozen=True, slots=True)
class Deployment:
    """An instance that is to be on AWS; `plan` looks, and `run` makes what is missing.

    Parameters
    ----------
    warehouse
        In a bucket, which may be missing.
    """

    warehouse: Storage
    catalog: DynamoDBCatalog
    properties: InstanceProperties

    def __post_init__(self) -> None:
        if self.warehouse.local:
            hint = "give s3://bucket/prefix; a folder needs none of this: add-instance NAME, or just open it"
            raise InvalidInput(f"{self.warehouse.root} is a folder, and only a bucket is deployed to", hint=hint)

    def plan(self) -> DeployReport:
        """Return what exists and what is to make; two or three requests for each, all of which only look.

        Without keys nothing is asked, so that whoever grants them can be shown what is needed.
        """
        with self.warehouse.explained():  # AWS_PROFILE may name none
            has_keys, region = self.catalog.db.keys_and_region()
        if region is None:
            raise no_region()
        if has_keys:
            return self._looked(region)
        steps = tuple(DeployStep(kind, name, NOT_CHECKED) for kind, name in self._needed(self._tables(self.properties)))
        return self._report(steps, region)

    def _looked(self, region: str) -> DeployReport:
        place = self._place
        check_warehouse(self.catalog, self.warehouse.below(self.catalog.instance))
        with self.warehouse.explained():
            has_bucket = place.has_bucket()
        has_file = has_bucket and self.warehouse.has(self._file)
        tables = self._tables(self._kept_properties() if has_file else self.properties)
        exist = (has_bucket, *map(self.catalog.db.has_table, tables), has_file)
        steps = zip(self._needed(tables), exist, strict=True)
        return self._report(
            tuple(DeployStep(kind, name, EXISTS if there else MISSING) for (kind, name), there in steps), region
        )

    def _needed(self, tables: Iterable[KeyedTable]) -> tuple[tuple[str, str], ...]:
        """Return the kind and the name of all that the instance needs, in the order in which it is made."""
        return (
            ("bucket", self._place.bucket),
            *(("DynamoDB table", table.name) for table in tables),
            ("properties", f"{self.warehouse.root}/{self._file}"),
        )

    def _report(self, steps: tuple[DeployStep, ...], region: str) -> DeployReport:
        location = f"{self.warehouse.root}/{self.catalog.instance}"
        aws = replace(self.catalog.db.aws, region=region)
        return DeployReport(location, steps, dry_run=True, aws=aws)

    def run(self) -> DeployReport:
        """Make what is missing. Running it again, after an error or by two at once, makes only what is missing then.

        `StorageError` when S3 or DynamoDB refuse, naming what; what was made before stays.
        """
        plan = self.plan()
        if any(step.state == NOT_CHECKED for step in plan.steps):
            raise no_keys()
        missing = {step.name for step in plan.steps if step.state == MISSING}
        if self._place.bucket in missing:
            logger.info("making the bucket %s", self._place.bucket)
            with self.warehouse.explained():
                self._place.make_bucket()
        self.catalog.make()
        shared = [table for table in shared_tables(self.catalog) if table.name in missing]
        self.catalog.db.make_tables(shared, self.catalog.on_create)
        if not self.warehouse.has(self._file):
            self.warehouse.write_new(self._file, self.properties.to_text().encode())
        steps = tuple(replace(step, state=MADE) if step.name in missing else step for step in plan.steps)
        return replace(plan, steps=steps, dry_run=False)

    def _kept_properties(self) -> InstanceProperties:
        return InstanceProperties.from_text(read_text(self.warehouse, self._file), self.warehouse.locate(self._file))

    def _tables(self, properties: InstanceProperties) -> tuple[KeyedTable, ...]:
        """Return the DynamoDB tables made in advance: no shared ones where each Sleeper table gets its own."""
        shared = () if properties[OWN_TABLES] == "own" else shared_tables(self.catalog)
        return (*self.catalog.tables_of_instance, *shared)

    @property
    def _place(self) -> S3Place:
        assert isinstance(self.warehouse.place, S3Place)  # noqa: S101 - what is not local
        return self.warehouse.place

    @property
    def _file(self) -> str:
        return f"{self.catalog.instance}/{paths.INSTANCE_PROPERTIES}"
