"""A warehouse in a bucket, with its catalog in DynamoDB, by the same names as one in a folder."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import dataset as ds
from pyarrow import parquet as pq

import sleeper_nb as sl
from sleeper_nb.commands import COMMANDS
from sleeper_nb.commands.context import Context
from sleeper_nb.demo import free_instance
from sleeper_nb.errors import InvalidInput, NotAllowed, NotFound, StorageError
from sleeper_nb.model.properties import (
    DATA_PATH,
    OWN_TABLES,
    STATE_STORES,
    TRANSACTION_ITEMS,
)
from sleeper_nb.progress import Silent
from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.filesystem import open_storage
from tests.servers.fixtures import use
from tests.servers.server import Server
from tests.support.combinations import on_engines

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "double?"})


class Telling(Silent):
    def __init__(self) -> None:
        self.told: list[str] = []

    def finish(self, text: str = "") -> None:
        self.told += [text] * bool(text)


@pytest.fixture
def connect(moto: Server, monkeypatch: pytest.MonkeyPatch):
    use(moto, monkeypatch)
    bucket = moto.new_bucket()
    instance = bucket[-20:].strip("-")

    def connected(**options):
        return sl.connect(f"s3://{bucket}/house", instance, endpoint_url=moto.endpoint_url, **options)

    return connected


@pytest.mark.parametrize(("engine", "state_store"), on_engines([(store,) for store in STATE_STORES], every=3))
def test_a_table_in_a_bucket_is_used_like_one_in_a_folder(connect, request, engine, state_store):
    spark = request.getfixturevalue("spark_engine").session() if engine == "spark" else None
    telling = Telling()
    with connect(progress=telling) as session:
        table = session.create_table("trips", SCHEMA, ["m"], state_store=state_store)
        assert any("pay per request" in text for text in telling.told)
        table.ingest([{"city": "rome", "fare": 1.0}, {"city": "bern", "fare": None}])
        table.create_savepoint("kept")
        table.ingest([{"city": "bern", "fare": 2.0}])
    with connect(spark=spark) as session:
        table = session.table("trips")
        assert session.location.startswith("s3://")
        assert table.scan(keys="bern").count() == 2
        assert table.maintenance.compact(strategy="all").snapshots
        assert table.scan().to_pandas()["city"].tolist() == ["bern", "bern", "rome"]
        assert table.scan(version="savepoint.kept").count() == 2
        both = "SELECT count(*) - (SELECT count(*) FROM trips VERSION AS OF 'savepoint.kept') AS more FROM trips"
        assert session.sql(both, engine=engine).to_pandas()["more"].tolist() == [1]
        loads = "spark" if spark else "local"
        table.bulk_import([{"city": "zug", "fare": 3.0}], engine=loads)
        assert table.maintenance.compact(strategy="all", engine=loads).snapshots
        assert (table.scan().to_spark() if spark else table.scan()).count() == 4
        assert [s.operation for s in table.history()][-1] == "create"


def test_an_instance_can_be_opened_before_it_has_anything(connect):
    with connect() as session:
        assert len(session.tables()) == 0
        with pytest.raises(sl.NotFound):
            session.table("trips")


def most_merged(session: sl.Session) -> int:
    table = session.create_table("trips", SCHEMA, state_store="DynamoDBStateStore")
    for fare in range(13):
        table.ingest([{"city": "rome", "fare": float(fare)}])
    return max(len(job.inputs) for job in table.maintenance.compact(strategy="all", dry_run=True).jobs)


def test_an_instance_property_limits_what_a_transaction_of_dynamodb_holds(connect):
    with connect(properties={TRANSACTION_ITEMS: "25"}) as session:
        assert most_merged(session) == 11  # the specification's figure
    with pytest.raises(sl.InvalidInput, match=TRANSACTION_ITEMS):
        connect(properties={TRANSACTION_ITEMS: "101"})


def test_the_file_of_instance_properties_counts_where_the_session_sets_nothing(connect, moto: Server):
    with connect() as session:
        storage = open_storage(session.location, AwsTarget(endpoint_url=moto.endpoint_url))
    storage.write("config/instance.properties", f"{TRANSACTION_ITEMS}=25\n".encode())
    with connect() as session:
        assert most_merged(session) == 11
    storage.write("config/instance.properties", b"sleeper.statestore=1\n")
    with pytest.raises(sl.NotFound, match=r"instance\.properties"):
        connect()


def test_a_table_in_a_bucket_is_altered(connect):
    with connect() as session:
        table = session.create_table("trips", SCHEMA)
        table.ingest([{"city": "rome", "fare": 1.0}])
        table.alter({"fare": "string?", "tip": "int?"}, {"fare": "price"})
        table.ingest([{"city": "bern", "price": 2.0, "fare": "cheap", "tip": 1}])
        found = [{"city": "bern", "price": 2.0, "fare": "cheap", "tip": 1},
                 {"city": "rome", "price": 1.0, "fare": None, "tip": None}]  # fmt: skip
        assert table.scan().to_arrow().to_pylist() == found
        on_duckdb = session.sql("SELECT * FROM trips WHERE tip IS NULL AND price < 2", engine="duckdb")
        assert on_duckdb.to_arrow().to_pylist() == found[1:]
        assert table.scan(version=2).to_duckdb().columns == ["city", "fare"]
        assert table.scan(version=2, schema="current").to_duckdb().fetchall() == [("rome", 1.0, None, None)]


def test_a_scan_in_a_bucket_is_a_data_set_that_opens_only_the_files_it_needs(connect):
    with connect() as session:
        table = session.create_table("trips", SCHEMA, ["m"])
        table.ingest([{"city": "rome", "fare": 1.0}, {"city": "bern", "fare": None}])
        data = table.scan().to_dataset()
        assert data.to_table().sort_by("city") == table.scan().to_arrow()
        storage = session.warehouse._storage
        rome = next(each for each in data.get_fragments(filter=ds.field("city") == "rome"))
        (other,) = set(data.files) - {rome.path}
        storage.delete(other.partition(storage.root.removeprefix("s3://"))[2].removeprefix("/"))
        assert data.to_table(filter=ds.field("city") == "rome").to_pylist() == [{"city": "rome", "fare": 1.0}]
        with pytest.raises(Exception, match=r"no file|404|NoSuchKey"):
            data.to_table()
        with pytest.raises(NotFound, match="no file s3://"):
            table.scan().to_dataset()


def test_an_answer_whose_file_is_gone_before_it_is_read_names_the_file(connect):
    with connect() as session:
        table = session.create_table("trips", SCHEMA)
        for city in ("rome", "bern"):
            table.ingest([{"city": city, "fare": 1.0}])
        answer = session.sql("SELECT city, fare FROM trips WHERE fare > 0", engine="duckdb")
        data = table.scan().to_dataset()
        gone = table._store.load().files.active["filename"][0].as_py()
        table._store.storage.delete(gone)
        for read in (answer.to_arrow, answer.head, lambda: session.sql("SELECT max(fare) AS f FROM trips").to_arrow()):
            with pytest.raises(NotFound, match=f"no file s3://.*{gone.rpartition('/')[2]}"):
                read()
        with pytest.raises(Exception, match="no file s3://"):
            data.to_table()


@pytest.mark.parametrize("tables", ["shared", "own"])
def test_a_deleted_table_leaves_nothing_in_the_bucket_and_nothing_in_dynamodb(connect, tables):
    with connect(properties={OWN_TABLES: tables}) as session:
        kept = session.create_table("kept", SCHEMA, state_store="DynamoDBStateStore")
        kept.ingest([{"city": "rome", "fare": 1.0}])
        trips = session.create_table("trips", SCHEMA, ["m"], state_store="DynamoDBStateStore")
        trips.ingest([{"city": "rome", "fare": 1.0}])
        trips.create_savepoint("kept")
        session.admin.reinitialise("trips", delete_partitions=True, force=True)
        catalog, store = session._components.catalog, session.table("trips")._store
        parts = store._tables.all
        assert session.drop_table("trips", force=True).savepoints == ("kept",)
        assert [list(rows.query()) for rows in parts] == [[], [], []]
        assert not list(catalog.rows(trips.entry.id).query())
        assert not [file for file in session._storage.list() if trips.entry.id in file.path]
        assert session.table("kept").scan().count() == 1
        named = catalog.db.client().list_tables()["TableNames"]
        assert not [name for name in named if trips.entry.id in name]


def test_instances_of_a_bucket_are_listed_and_opened_by_commands(connect, moto, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint_url)  # what a face opens has no endpoint but the environment's
    with connect() as session:
        session.create_table("trips", SCHEMA)
        assert session.warehouse.location == session.location.removesuffix(f"/{session.instance}")
        context = Context("console", connect=sl.connect, session=session)
        other = f"{session.instance}-b"
        COMMANDS.parse_line(f"add-instance {other} --set {TRANSACTION_ITEMS}=25").run(context)
        listed = COMMANDS.parse_line("instances").run(context)
        assert [(each.name, each.tables) for each in listed] == [(session.instance, ("trips",)), (other, ())]
        with context.instance(other) as second:
            assert second._components.property_files.instance[TRANSACTION_ITEMS] == 25
        session.table("trips").set_properties({"snapshot.num-retained.min": "3"})
        assert session.table("trips").at().properties["snapshot.num-retained.min"] == 3
        with pytest.raises(NotFound):
            context.instance("nowhere")


def test_a_notebook_opens_the_bucket_and_the_server_of_the_file(connect, moto, shell, tmp_path):
    with connect() as session:
        session.create_table("trips", SCHEMA)
        house, instance = session.location.removesuffix(f"/{session.instance}"), session.instance
    (tmp_path / "sleeper.toml").write_text(f'warehouse = "{house}"\nendpoint-url = "{moto.endpoint_url}"\n')
    for line in ("use", f"use {house}"):
        assert shell.run_line_magic("sleeper", f"{line} --instance {instance}").tables == ("trips",)


def test_a_table_has_a_bucket_and_metadata_tables_of_its_own(connect, moto):
    bucket = moto.new_bucket()
    place = {DATA_PATH: f"s3://{bucket}/some/where"}
    with connect(properties={OWN_TABLES: "own"}) as session:
        with pytest.raises(NotAllowed, match=f"s3://{bucket}/some/where"):
            session.create_table("trips", SCHEMA, properties=place)
        session.allow(data_paths=[f"s3://{bucket}/some"])
        table = session.create_table("trips", SCHEMA, ["m"], state_store="DynamoDBStateStore", properties=place)
        table.ingest([{"city": "rome", "fare": 1.0}, {"city": "bern", "fare": None}])
        table.create_savepoint("kept")
        table.ingest([{"city": "bern", "fare": 2.0}])
        table.maintenance.compact("all", engine="local")
        paths = [file.path for file in open_storage(f"s3://{bucket}", AwsTarget(endpoint_url=moto.endpoint_url)).list()]
        assert paths
        assert all(path.startswith(f"some/where/{table.entry.id}/") for path in paths)
        assert not session.warehouse._storage.list(f"{session.instance}/{table.entry.id}")
    with connect(data_paths=[f"s3://{bucket}"]) as session:
        assert session.table("trips").scan().count() == 3
        assert session.table("trips").scan(version="savepoint.kept").count() == 2
        sql = "select count(*) as n from trips version as of 'savepoint.kept'"
        assert session.sql(sql, engine="duckdb").to_arrow()["n"].to_pylist() == [2]


def test_files_of_another_bucket_are_added_where_they_are(connect, moto: Server):
    lake = moto.new_bucket()
    place = open_storage(f"s3://{lake}", AwsTarget(endpoint_url=moto.endpoint_url))
    sorted_rows = {"city": ["athens", "bern", "rome"], "fare": [1.0, None, 2.0]}
    for name in ("in/a.parquet", "in/b.parquet"):
        with place.output(name) as stream:
            pq.write_table(pa.table(sorted_rows), stream)
    with connect() as session:
        table = session.create_table("trips", SCHEMA, ["m"])
        with pytest.raises(NotAllowed, match=f"s3://{lake}/in/a.parquet"):
            table.add_files(f"s3://{lake}/in/")
        session.allow(data_paths=[f"s3://{lake}/in"])
        with pytest.raises(InvalidInput, match="in a bucket, where files cannot be moved"):
            table.add_files(f"s3://{lake}/in/*.parquet", move=True)
        table.add_files(f"s3://{lake}/in/*.parquet")
        assert table.scan().to_arrow()["city"].to_pylist() == ["athens", "athens", "bern", "bern", "rome", "rome"]
        (total,) = session.sql("SELECT sum(fare) AS s FROM trips", engine="duckdb").to_arrow()["s"].to_pylist()
        assert total == 6
        assert table.maintenance.check(deep=True).ok
        table.maintenance.compact("all", engine="local")
        assert table.scan().count() == 6
        with pytest.raises(StorageError, match="not below"):
            table._store.storage.delete(f"s3://{lake}/in/a.parquet")
        first = table.history()[-2]
        assert table.at(first.id).scan().count() == 6
        with place.output("in/a.parquet") as stream:
            pq.write_table(pa.table(sorted_rows).replace_schema_metadata({"a": "b"}), stream)
        with pytest.raises(StorageError, match=r"a\.parquet"):
            table.at(first.id).scan().to_arrow()
        assert not table.maintenance.check().ok
        session.drop_table("trips", force=True)
    assert [file.path for file in place.list("in")] == ["in/a.parquet", "in/b.parquet"]


def test_a_second_demo_in_a_bucket_takes_another_instance(moto: Server, monkeypatch: pytest.MonkeyPatch):
    use(moto, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.endpoint_url)
    bucket = f"s3://{moto.new_bucket()}/house"
    first = free_instance(bucket)
    with sl.connect(bucket, first) as session:
        session.create_table("flights", SCHEMA)
        assert free_instance(bucket) == f"demo-{int(first.rpartition('-')[2]) + 1 if '-' in first else 2}"
        session.drop_table("flights", force=True)
    assert free_instance(bucket) == first
