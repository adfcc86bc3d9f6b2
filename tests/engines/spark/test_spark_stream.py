"""Streams as Spark itself runs them; what the reader does in each case is held by ``test_stream_reader.py``."""

from __future__ import annotations

from datetime import timedelta

import pytest

import sleeper_nb as sl
from sleeper_nb.engines.spark.spark_errors import explain
from tests.servers.fixtures import use

pytestmark = pytest.mark.spark

SCHEMA = sl.Schema({"key": "string"}, values={"x": "long?"})


@pytest.fixture
def spark(spark_engine):
    return spark_engine.session()


def add(table, *keys):
    table.ingest([{"key": key, "x": 1} for key in keys])


def frame_of(spark, **options):
    return spark.readStream.format("sleeper").options(**options).load("t")


def start(frame, folder):
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(folder / "out"))


def keys_in(spark, folder):
    return sorted(row.key for row in spark.read.parquet(str(folder / "out")).collect())


def test_a_sink_holds_each_row_once_across_restarts_compactions_and_splits(spark, session, tmp_path):
    table = session.create_table("t", SCHEMA, ["m"])
    add(table, "a", "z")
    table.create_savepoint("early")
    add(table, "b")
    options = {"scan.savepoint-id": "early", "maxSnapshotsPerTrigger": "1"}
    frame = frame_of(spark, **options)
    start(frame, tmp_path).awaitTermination()
    assert keys_in(spark, tmp_path) == ["a", "b", "z"]
    add(table, "c", "y")
    table.maintenance.compact("all", engine="local")
    table.maintenance.split(at="c")
    add(table, "d")
    table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    query = start(frame_of(spark, **options), tmp_path)
    query.awaitTermination()
    assert keys_in(spark, tmp_path) == ["a", "b", "c", "d", "y", "z"]
    assert [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]] == [2, 1]


def test_a_batch_that_failed_is_given_again_as_it_was(spark, session, tmp_path):
    table = session.create_table("t", SCHEMA, ["m"])
    add(table, "a")
    given = []

    def take(batch, number):
        given.append((number, sorted(row.key for row in batch.collect())))
        if len(given) == 1:
            raise RuntimeError("the sink failed")

    def run():
        writer = frame_of(spark).writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the sink failed"):
        run()
    add(table, "b")
    run()
    assert given == [(0, ["a"]), (0, ["a"]), (1, ["b"])]


def test_a_stream_that_goes_on_gives_what_is_committed_meanwhile(spark, session):
    table = session.create_table("t", SCHEMA)
    add(table, "a")
    query = frame_of(spark).writeStream.format("memory").queryName("seen").start()
    try:
        query.processAllAvailable()
        add(table, "b")
        query.processAllAvailable()
        assert sorted(row.key for row in spark.table("seen").collect()) == ["a", "b"]
    finally:
        query.stop()
        spark.catalog.dropTempView("seen")


def test_a_checkpoint_whose_next_snapshots_have_expired_is_a_short_error(spark, session, tmp_path):
    table = session.create_table("t", SCHEMA)
    add(table, "a")
    start(frame_of(spark), tmp_path).awaitTermination()
    add(table, "b")
    add(table, "c")
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    with pytest.raises(Exception, match="has expired before the stream read it") as caught:
        start(frame_of(spark), tmp_path).awaitTermination()
    error = explain(caught.value)
    assert type(error) is sl.NotFound
    assert error.message == "snapshot 3 of table 't' has expired before the stream read it"
    assert error.hint.endswith("at snapshot 4 or a later one")
    assert keys_in(spark, tmp_path) == ["a"]


@pytest.mark.processes
def test_a_table_in_a_bucket_is_read_and_streamed_by_processes_that_find_the_keys_of_this_one(
    spark, moto, monkeypatch, tmp_path
):
    use(moto, monkeypatch)
    bucket = moto.new_bucket()
    where = f"s3://{bucket}/house", bucket[-20:].strip("-")
    with sl.connect(*where, endpoint_url=moto.endpoint_url, spark=spark) as session:
        table = session.create_table("t", SCHEMA, ["m"])
        add(table, "a", "z")
        assert spark.read.format("sleeper").load("t").where("key > 'm'").count() == 1
        start(frame_of(spark), tmp_path).awaitTermination()
    assert keys_in(spark, tmp_path) == ["a", "z"]


def test_a_sink_holds_all_changes_with_their_kind(spark, session, tmp_path):
    table = session.create_table("t", SCHEMA, ["m"])
    add(table, "a", "z")

    def run(**options):
        query = start(frame_of(spark, **options), tmp_path)
        query.awaitTermination()

    with_changes = {"streaming.changes": "true"}
    run(**with_changes)
    table.update({"x": "2"}, "key = 'a'")
    table.delete("key = 'z'")
    with pytest.raises(Exception, match="snapshot 3 of table 't' has operation 'update', which changed rows"):
        run()
    run(**with_changes)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row._commit_version, row._change_type, row.key, row.x) for row in rows) == [
        (2, "insert", "a", 1),
        (2, "insert", "z", 1),
        (3, "update_postimage", "a", 2),
        (3, "update_preimage", "a", 1),
        (4, "delete", "z", 1),
    ]
