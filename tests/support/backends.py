"""Where a table under test has its catalog and its files: SQLite and a folder, moto, or real servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.catalog.catalog_base import Catalog
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.state_store.state_store_base import StateStore
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import Storage, open_storage
from tests.servers import once
from tests.servers.dynamodb import dynamodb_catalog
from tests.servers.memory import memory_catalog
from tests.servers.server import Server
from tests.support.builders import TABLE, a_store


def _on_moto_dynamodb(folder: Path, **options: Any) -> DynamoDBCatalog:
    return dynamodb_catalog(once.moto(), folder, **options)


def _on_dynamodb_local(folder: Path, **options: Any) -> DynamoDBCatalog:
    return dynamodb_catalog(once.dynamodb_local(), folder, **options)


DYNAMODB: dict[str, Callable[..., DynamoDBCatalog]] = {
    "memory": memory_catalog,
    "moto": _on_moto_dynamodb,
    "local": _on_dynamodb_local,
}
"""What opens a catalog in DynamoDB, the same one for everyone who names the folder."""
BESIDE = {"moto": pytest.mark.moto, "servers": pytest.mark.servers}
"""The marks of backends that are tried in addition to those of every run."""
MEMORY_AND_SERVERS = [
    "memory",
    pytest.param("moto", marks=pytest.mark.moto),
    pytest.param("local", marks=pytest.mark.servers),
]


@dataclass(frozen=True, slots=True)
class Backend:
    """A catalog and a place for files, which other processes can open too.

    Parameters
    ----------
    folder
        Where both are, unless there are servers.
    dynamodb, s3
        The servers that have the catalog, and the files.
    bucket
        Of the files.
    in_memory
        Whether the catalog is in a DynamoDB of this process, which no other can open.
    """

    folder: Path
    dynamodb: Server | None = None
    s3: Server | None = None
    bucket: str = ""
    in_memory: bool = False

    def catalog(self) -> Catalog:
        """Open the catalog."""
        if self.in_memory:
            return memory_catalog(self.folder)
        if self.dynamodb is None:
            return SqliteCatalog(self.folder / "catalog.sqlite")
        return dynamodb_catalog(self.dynamodb, self.folder)

    def storage(self, table_id: str) -> Storage:
        """Return the place of a table's files."""
        if self.s3 is None:
            return Storage(self.folder / table_id)
        return open_storage(f"s3://{self.bucket}/{table_id}", AwsTarget(self.s3.region, self.s3.endpoint_url))

    def store(self, kind: str, *, table_id: str = TABLE, **options: Any) -> StateStore:
        """Return a state store of the class `kind`; the options are those of `a_store`."""
        return a_store(
            self.folder,
            kind=kind,
            table_id=table_id,
            catalog=self.catalog(),
            storage=self.storage(table_id),
            **options,
        )


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of one class of state store on one backend; new ones are split at `points`."""

    kind: str
    backend: Backend
    points: tuple[str, ...] = ()

    def opened(self, **options: Any) -> StateStore:
        """Return a new table; of one that is there with ``create=False``."""
        return self.backend.store(self.kind, **{"points": self.points, **options})


def _on_moto(folder: Path) -> Backend:
    server = once.moto()
    return Backend(folder, server, server, server.new_bucket())


def _on_servers(folder: Path) -> Backend:
    return Backend(folder, once.dynamodb_local(), once.versitygw(), once.versitygw().new_bucket())


BACKENDS: dict[str, Callable[[Path], Backend]] = {
    "folder": Backend,
    "memory": partial(Backend, in_memory=True),
    "moto": _on_moto,
    "servers": _on_servers,
}
"""By name: SQLite and a folder; DynamoDB in this process and a folder; moto's DynamoDB and S3; DynamoDB Local and
versitygw.
"""

BACKENDS_OF = {
    "S3StateStore": ("folder", "moto", "servers"),
    "TransactionLogStateStore": ("folder", "moto", "servers"),
    "DynamoDBStateStore": ("memory", "moto", "servers"),
}


def marks_of(kind: str, backend: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a store on a backend that is not of every run.

    On real servers, `S3StateStore` is `long`: what it does there, `TransactionLogStateStore` does too, which commits in
    DynamoDB, writes whole metadata to S3 from time to time, and beside it a log.
    """
    return [BESIDE[backend], *([pytest.mark.long] if (kind, backend) == ("S3StateStore", "servers") else [])]


def stores(dynamodb: str) -> list[Any]:
    """Return every store on every backend; those that every run tries have SQLite or this DynamoDB."""
    every_run = {("S3StateStore", "folder"), ("TransactionLogStateStore", "folder"), ("DynamoDBStateStore", dynamodb)}
    return [
        pytest.param(
            (kind, name), id=f"{kind} on {name}", marks=() if (kind, name) in every_run else marks_of(kind, name)
        )
        for kind, backends in BACKENDS_OF.items()
        for name in backends
        if name != "memory" or name == dynamodb
    ]
