"""Our state stores and their peers behind one interface, so that benchmarks can time them in one run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import sleeper_nb as sl
from tests.servers import once

Append = Callable[[pa.Table], object]


def rows(worker: int, number: int, count: int) -> pa.Table:
    """Return `count` sorted rows that no other call gives."""
    begin = (worker * 10_000 + number) * count
    keys = pa.array(range(begin, begin + count), pa.int64())
    return pa.table({"key": keys, "value": pa.array([f"value {key}" for key in range(count)], pa.string())})


class Ours:
    """A table of a warehouse in a folder, kept by one of our state stores.

    With `sync`, the default of the product, an append waits until the disk has it. No peer does, so for a like
    comparison there is one of each without.
    """

    def __init__(self, state_store: str, *, sync: bool = True) -> None:
        self.state_store = state_store
        self.properties = {"sleeper.storage.sync": str(sync).lower()}

    def connect(self, folder: Path) -> sl.Session:
        """Open the warehouse that belongs to a folder."""
        return sl.connect(folder, properties=self.properties)

    def create(self, folder: Path) -> None:
        """Make the table."""
        with self.connect(folder) as session:
            schema = sl.Schema({"key": "long"}, values={"value": "string"})
            session.create_table("t", schema, state_store=self.state_store)

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Append]:
        """Give what appends rows in one commit."""
        with self.connect(folder) as session:
            yield session.table("t").ingest

    def landed(self, folder: Path) -> tuple[int, int]:
        """Return the commits since the table was made, and the rows."""
        with self.connect(folder) as session:
            head = session.table("t").history()[0]
            return head.id - 1, head.rows


class OursOnServers(Ours):
    """The same in a bucket of versitygw, with its catalog in DynamoDB Local."""

    def connect(self, folder: Path) -> sl.Session:
        """Open the warehouse that belongs to a folder."""
        return sl.connect(f"s3://{self._name(folder)}", self._name(folder))

    def _name(self, folder: Path) -> str:
        """Return the name of the bucket and the instance: a folder's own may have what no bucket's can."""
        return hashlib.sha256(folder.name.encode()).hexdigest()[:20]

    def create(self, folder: Path) -> None:
        """Start the servers, which other processes find by the environment, and make the bucket and the table."""
        s3, dynamodb = once.versitygw(), once.dynamodb_local()
        os.environ |= s3.environment()
        os.environ |= {"AWS_ENDPOINT_URL_S3": s3.endpoint_url, "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.endpoint_url}
        s3.client("s3").create_bucket(Bucket=self._name(folder))
        super().create(folder)


class Lance:
    """A Lance dataset."""

    def create(self, folder: Path) -> None:
        """Make the table, with one commit."""
        import lance

        lance.write_dataset(rows(0, 0, 0), str(folder / "t.lance"))

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Append]:
        """Give what appends rows in one commit."""
        import lance

        path = str(folder / "t.lance")
        yield lambda data: lance.write_dataset(data, path, mode="append")

    def landed(self, folder: Path) -> tuple[int, int]:
        """Return the commits since the table was made, and the rows."""
        import lance

        dataset = lance.dataset(str(folder / "t.lance"))
        return dataset.version - 1, dataset.count_rows()


class Delta:
    """A Delta table, by delta-rs."""

    def create(self, folder: Path) -> None:
        """Make the table, with one commit."""
        import deltalake

        deltalake.DeltaTable.create(folder / "t.delta", rows(0, 0, 0).schema)

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Append]:
        """Give what appends rows in one commit."""
        import deltalake

        yield lambda data: deltalake.write_deltalake(folder / "t.delta", data, mode="append")

    def landed(self, folder: Path) -> tuple[int, int]:
        """Return the commits since the table was made, and the rows."""
        import deltalake

        table = deltalake.DeltaTable(folder / "t.delta")
        return table.version(), table.to_pyarrow_table().num_rows


class Iceberg:
    """An Iceberg table, by PyIceberg with a catalog in SQLite."""

    def _catalog(self, folder: Path) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog("c", uri=f"sqlite:///{folder}/iceberg.sqlite", warehouse=f"file://{folder}")

    def create(self, folder: Path) -> None:
        """Make the table, without a commit."""
        catalog = self._catalog(folder)
        catalog.create_namespace("n")
        catalog.create_table("n.t", rows(0, 0, 0).schema)

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Append]:
        """Give what appends rows in one commit."""
        yield self._catalog(folder).load_table("n.t").append

    def landed(self, folder: Path) -> tuple[int, int]:
        """Return the commits since the table was made, and the rows."""
        table = self._catalog(folder).load_table("n.t")
        return len(table.history()), table.scan().to_arrow().num_rows


WRITERS: Mapping[str, Any] = {
    "Lance": Lance(),
    "S3StateStore": Ours("S3StateStore"),
    "S3StateStore, no sync": Ours("S3StateStore", sync=False),
    "TransactionLogStateStore": Ours("TransactionLogStateStore"),
    "TransactionLog…, no sync": Ours("TransactionLogStateStore", sync=False),
    "delta-rs": Delta(),
    "PyIceberg": Iceberg(),
}
"""By the names that the results show; the peer that ratios are to comes first."""
ON_SERVERS: Mapping[str, Any] = {
    f"{name} on servers": OursOnServers(name)
    for name in ("S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore")
}
"""They need Java, Maven and Go."""
