"""A table in a bucket is published as one in a folder is."""

from __future__ import annotations

import pytest
from pyiceberg.table import StaticTable

import sleeper_nb as sl
from sleeper_nb.publish.published import unpublish
from sleeper_nb.publish.verify import verify
from tests.servers.fixtures import use
from tests.servers.server import Server
from tests.support.other_engines import published_now


@pytest.fixture
def connect(moto: Server, monkeypatch: pytest.MonkeyPatch):
    use(moto, monkeypatch)
    bucket = moto.new_bucket()

    def connected():
        return sl.connect(f"s3://{bucket}/the house", bucket[-20:].strip("-"), endpoint_url=moto.endpoint_url)

    return connected


def test_a_table_in_a_bucket_is_published_with_its_deleted_rows(connect, moto):
    with connect() as session:
        table = session.create_table("trips", sl.Schema({"city": "string"}, {}, {"fare": "double?"}), ["m"])
        table.ingest([{"city": city, "fare": 1.0} for city in ("bern", "lima", "rome") for _ in range(2000)])
        older = published_now(table._store)
        table.delete("city = 'rome' AND fare = 1.0")
        table.ingest([{"city": "oslo", "fare": None}])
        report = published_now(table._store)
        assert report.address.startswith("s3://")
        given = {"s3.endpoint": moto.endpoint_url, "s3.region": "us-east-1"}
        found = StaticTable.from_metadata(report.address, given)
        own = table.scan().to_arrow()
        assert found.scan().to_arrow().sort_by("city").cast(own.schema).equals(own)
        assert found.scan(snapshot_id=older.snapshot_id).count() == 6000
        assert verify(table._store) == ()
        assert unpublish(table._store).files > 0
        assert table._store.storage.list("metadata") == ()
