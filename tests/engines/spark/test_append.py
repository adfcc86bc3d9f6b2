"""Appends through ``df.write.format("sleeper")``: the rows and files of an ingest, one commit, or nothing."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import sleeper_nb as sl
from sleeper_nb.engines.spark import append
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.source import source_of
from sleeper_nb.engines.spark.spark_errors import explain
from sleeper_nb.session import open_source_table
from tests.support.builders import in_order
from tests.support.combinations import some
from tests.support.modes import read_only

SCHEMA = sl.Schema({"key": "string"}, {"n": "int"}, {"x": "double?"})
COLUMNS = "key string, n int, x double"


@pytest.fixture
def spark(spark_engine):
    return spark_engine.session()


@pytest.fixture
def table(session):
    return session.create_table("t", SCHEMA, ["d", "m"])


@pytest.fixture
def stored(tmp_path, table):
    """Return the data files in the table's folder, as the table names them."""
    folder = Path(table._store.storage.root)
    return lambda: {str(path.relative_to(folder)) for path in folder.rglob("data/**/*.parquet")}


def rows(count):
    return [{"key": chr(97 + n % 26), "n": n, "x": None if n % 3 else n / 4} for n in range(count)]


def frame(spark, data, partitions=2):
    return spark.createDataFrame(pa.Table.from_pylist(data, schema=SCHEMA.arrow)).repartition(partitions)


def save(data, mode="append", **options):
    named = {"table": "t", **{name.replace("_", "-"): value for name, value in options.items()}}
    data.write.format("sleeper").options(**named).mode(mode).save()


def error_of(action):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own
        action()
    assert "\tat " not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    return explain(caught.value)


def content(table):
    return in_order(table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("partitions", [7, *(pytest.param(count, marks=pytest.mark.long) for count in (1, 40))])
def test_an_append_equals_an_ingest(spark, session, table, partitions):
    save(frame(spark, rows(1000), partitions), message="from Spark")
    peer = session.create_table("peer", SCHEMA, ["d", "m"])
    peer.ingest(rows(1000))
    assert content(table) == content(peer)
    assert table.history()[0].files == peer.history()[0].files == 3
    snapshot, _ = table.history()
    assert (snapshot.id, snapshot.message, snapshot.added_rows) == (2, "from Spark", 1000)
    assert snapshot.author == peer.history()[0].author
    assert table.maintenance.check(deep=True).ok


def test_a_job_is_recorded_as_of_an_ingest(spark, session, table):
    save(frame(spark, rows(10)))
    (job,) = table.inspect.jobs()
    assert (job.kind, job.state, job.rows_written, job.snapshot_id) == ("bulk-import", "FINISHED", 10, 2)
    assert job.author == table.history()[0].author


def test_every_type_is_stored_as_an_ingest_stores_it(spark, session):
    schema = sl.Schema(
        {"b": "bytearray", "l": "long"},
        {"d": "date"},
        {
            "price": "decimal(10,2)?",
            "ok": "boolean?",
            "tags": "list<string>?",
            "m": "map<string,long>?",
            "at": "timestamp?",
        },
    )
    full = {
        "b": b"\xff\0", "l": 2**62, "d": date(2026, 2, 3), "price": Decimal("1.25"), "ok": True, "tags": ["a", None],
        "m": {"k": 1}, "at": datetime(2026, 1, 1, 12, tzinfo=UTC),
    }  # fmt: skip
    data = pa.Table.from_pylist([full, {"b": b"", "l": -1, "d": date(1969, 1, 1)}], schema=schema.arrow)
    table, peer = session.create_table("t", schema), session.create_table("peer", schema)
    peer.ingest(data)
    save(peer.scan().to_spark())
    assert table.scan().to_arrow().equals(peer.scan().to_arrow())


def test_exact_values_of_other_types_are_cast_and_missing_columns_are_null(spark, table):
    save(spark.sql("SELECT 'a' AS key, 5L AS n"))
    assert table.scan().to_arrow().to_pylist() == [{"key": "a", "n": 5, "x": None}]


def test_an_empty_frame_adds_no_version(spark, table):
    save(frame(spark, rows(10)).limit(0))
    save(spark.createDataFrame([], COLUMNS))
    assert len(table.history()) == 1


def test_one_file_for_all_leaves_when_the_table_says_so(spark, session):
    properties = {"sleeper.table.ingest.file.writing.strategy": "one_reference_per_leaf"}
    table = session.create_table("t", SCHEMA, ["d", "m"], properties=properties)
    save(frame(spark, rows(100), 5))
    assert (table.history()[0].files, table.history()[0].references, table.history()[0].rows) == (1, 3, 100)


def test_a_due_savepoint_is_made(spark, session):
    table = session.create_table("t", SCHEMA, properties={"savepoint.create-interval": "1 h"})
    save(frame(spark, rows(3)))
    assert [savepoint.saved_snapshot_id for savepoint in table.savepoints()] == [2]


@pytest.mark.parametrize(
    ("mode", "message", "hint"),
    some(
        [
            ("overwrite", 'format("sleeper") cannot overwrite a table', 'write .mode("append")'),
            ("errorifexists", "cannot be written in the", None),
            ("ignore", "cannot be written in the", None),
        ],
        every=3,
    ),
)
def test_other_modes_are_refused_in_one_line(spark, table, mode, message, hint):
    error = error_of(lambda: save(frame(spark, rows(3)), mode))
    assert message in error.message
    assert "append" in str(error).casefold()
    assert hint is None or error.hint.startswith(hint)
    assert len(table.history()) == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    some(
        [
            ("'a' AS key, 1 AS n, 2D AS y", "unknown column 'y'"),
            ("'a' AS key", "missing column 'n'"),
            ("'a' AS key, map('a', 1) AS n", "column 'n' (map) cannot become int without loss"),
            ("'a' AS key, 5000000000L AS n", "column 'n': 5000000000 (long) cannot become int without loss"),
            ("'a' AS key, 1.5D AS n", "column 'n': 1.5 (double) cannot become int without loss"),
            ("CAST(NULL AS STRING) AS key, 1 AS n", "column 'key' has 1 null"),
            ("'a' AS key, 'one' AS n", "column 'n': 'one' is not a number"),
        ],
        every=3,
    ),
)
def test_what_does_not_fit_is_one_line_and_adds_nothing(spark, table, stored, columns, message):
    wrong = spark.sql(f"SELECT {columns}")
    error = error_of(lambda: save(wrong))
    assert isinstance(error, sl.InvalidInput)
    assert (error.message, bool(error.hint)) == (message, True)
    with pytest.raises(sl.InvalidInput) as peer:
        table.ingest(wrong)
    assert peer.value.message == error.message
    assert (len(table.history()), stored()) == (1, set())


@pytest.mark.parametrize(
    ("options", "kind", "message", "hint"),
    some(
        [
            ({"table": "tt"}, sl.NotFound, "no table 'tt'", "did you mean 't'?"),
            ({"mesage": "x"}, sl.NotFound, "no option 'mesage' of the data source", "did you mean 'message'?"),
            (
                {"scan.snapshot-id": "1"},
                sl.NotFound,
                "no option 'scan.snapshot-id' of the data source",
                "available: table, ",
            ),
            ({"job-id": " "}, sl.InvalidInput, "' ' is not a valid job id", "use one line of text"),
            ({"table": ""}, sl.InvalidInput, "the data source needs to know which table", 'write .option("table"'),
        ],
        every=3,
    ),
)
def test_wrong_options_are_one_line(spark, table, options, kind, message, hint):
    data = frame(spark, rows(3))
    error = error_of(lambda: data.write.format("sleeper").options(**{"table": "t", **options}).mode("append").save())
    assert (type(error), error.message) == (kind, message)
    assert error.hint.startswith(hint)


def test_an_option_of_writing_is_refused_when_reading(spark, table):
    error = error_of(lambda: spark.read.format("sleeper").option("job-id", "x").load("t"))
    assert error.message == "no option 'job-id' of the data source"


def test_some_wrong_rows_among_many_files_leave_nothing(spark, table, stored):
    good = spark.range(0, 100_000, 1, 4).selectExpr("concat('k', id) AS key", "CAST(id AS INT) AS n", "1D AS x")
    wrong = good.withColumn("n", good.n.cast("long") + (good.n == 99_999).cast("long") * 2**40)
    error = error_of(lambda: save(wrong))
    assert error.message.endswith("(long) cannot become int without loss")
    assert (len(table.history()), stored()) == (1, set())
    (job,) = table.inspect.jobs()
    assert (job.state, job.reason) == ("FAILED", error.message)


def test_a_task_that_fails_leaves_no_file_and_no_version(spark, table, stored):
    def fail(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 3:
            raise ValueError("mine")

    good = spark.range(0, 100_000, 1, 4).selectExpr("concat('k', id) AS key", "CAST(id AS INT) AS n", "1D AS x")
    with pytest.raises(Exception, match="ValueError: mine"):
        save(good.mapInArrow(fail, COLUMNS))
    assert (len(table.history()), stored()) == (1, set())
    (job,) = table.inspect.jobs()
    assert (job.state, job.reason) == ("FAILED", "a task of Spark failed or was cancelled")


def test_a_program_s_own_error_keeps_its_stack_after_rows_that_did_not_fit(spark, table):
    def fail(batches):
        raise ValueError("mine")
        yield from batches

    for _ in range(2):  # a process of Spark runs several tasks
        error_of(lambda: save(spark.sql("SELECT 'a' AS key, 5000000000L AS n")))
        with pytest.raises(Exception, match=r"(?s)Traceback.*in fail.*ValueError: mine"):
            spark.range(2).mapInArrow(fail, "id long").count()


def test_large_tasks_write_their_files_themselves(spark, table, stored):
    data = spark.range(0, 100_000, 1, 4).selectExpr(
        "concat(chr(97 + id % 26), id) AS key", "CAST(id AS INT) AS n", "1D AS x"
    )
    save(data)
    assert (table.history()[0].rows, table.history()[0].files) == (100_000, 12)
    assert len(stored()) == 12
    assert table.maintenance.check(deep=True).ok


def test_a_job_id_adds_its_rows_once(spark, table, stored):
    save(frame(spark, rows(10)), job_id="2026-11-21/t")
    before = stored()
    save(frame(spark, rows(10)), job_id="2026-11-21/t")
    table.ingest(rows(10), job_id="2026-11-21/t")
    assert (table.history()[0].rows, len(table.history()), stored()) == (10, 2, before)


def test_another_instance_can_be_named(spark, session, tmp_path):
    with sl.connect(tmp_path / "other") as other:
        other.create_table("t", SCHEMA)
        save(frame(spark, rows(3)), warehouse=str(tmp_path / "other"), instance="default")
        assert other.table("t").history()[0].rows == 3


def writer(table, tmp_path, **spark):
    """Return a writer as a process of Spark gets it, and a function that runs a task with some rows."""
    place = InstancePlace(str(tmp_path / "w"), "demo")
    kind = source_of(place, open_source_table, 2, prunes=False, **spark)
    made = kind({"table": "t"}).writer(from_arrow_schema(SCHEMA.arrow), overwrite=False)
    return made, lambda count: made.write(iter(pa.Table.from_pylist(rows(count), schema=SCHEMA.arrow).to_batches()))


def test_a_task_that_runs_again_adds_its_rows_once(table, tmp_path, stored, monkeypatch):
    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    made, task = writer(table, tmp_path)
    task(60)  # its executor was lost before it reported
    again, other = replace(task(60), attempt=1), task(40)
    assert len(stored()) == 9
    made.commit(pickle.loads(pickle.dumps([again, other])))  # noqa: S301 - as Spark hands them on
    assert (table.history()[0].rows, len(table.history()), len(stored())) == (100, 2, 6)
    assert table.maintenance.check(deep=True).ok


def test_of_a_task_that_runs_twice_at_once_one_adds_its_rows(table, tmp_path, stored, monkeypatch):
    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    made, task = writer(table, tmp_path, speculates=True)
    _, reported = task(60), task(60)
    made.commit([reported])
    assert (table.history()[0].rows, len(stored())) == (60, 3)


def test_a_task_cuts_its_rows_into_parts_that_fit_its_memory(table, tmp_path, monkeypatch):
    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    monkeypatch.setattr(append, "RUN_BYTES", 1000)
    made, _ = writer(table, tmp_path)
    batches = pa.Table.from_pylist(rows(300), schema=SCHEMA.arrow).to_batches(max_chunksize=50)
    made.commit([made.write(iter(batches))])
    assert (table.history()[0].rows, table.history()[0].files) == (300, 9)
    assert table.maintenance.check(deep=True).ok


def test_an_append_that_is_aborted_deletes_what_was_written(table, tmp_path, stored, monkeypatch):
    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    made, task = writer(table, tmp_path)
    reported = task(60)
    made.abort([reported, None])
    assert (stored(), len(table.history()), table.inspect.jobs()[0].state) == (set(), 1, "FAILED")


def test_an_abort_after_a_commit_that_failed_deletes_nothing_more(table, tmp_path, stored, monkeypatch):
    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    made, task = writer(table, tmp_path)
    reported = task(60)
    made.abort([reported])  # the outcome of the commit may be unknown
    assert len(stored()) == 3


def test_a_partition_that_is_split_while_tasks_write_refuses_the_append_and_leaves_nothing(
    table, tmp_path, stored, monkeypatch
):
    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    made, task = writer(table, tmp_path)
    reported = task(60)
    table.maintenance.split(at="f")
    with pytest.raises(sl.StateRuleBroken, match=r"was split while .* was written"):
        made.commit([reported])
    assert stored() == set()


def test_a_read_only_instance_refuses_and_stays_as_it_is(table, tmp_path, stored, monkeypatch):
    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    with read_only([tmp_path / "w"]):
        made, task = writer(table, tmp_path)
        reported = task(60)
        with pytest.raises(sl.StorageError) as error:
            made.commit([reported])
    assert "\n" not in error.value.message
    assert (len(table.history()), stored()) == (1, set())


def test_a_disk_that_may_work_again_is_tried_as_often_as_spark_tries(table, tmp_path, monkeypatch):
    def full(*_):
        raise sl.StorageError("no answer", hint="wait")
        yield

    monkeypatch.setattr(append, "HANDED_OVER_BYTES", 0)
    monkeypatch.setattr(append, "write_rows", full)
    made, task = writer(table, tmp_path, attempts=4)
    with pytest.raises(sl.StorageError):
        task(60)
    type(made.source).attempts = 1
    with pytest.raises(sl.StorageError, match="no answer"):
        made.commit([task(60)])


def test_a_warehouse_that_cannot_be_written_is_one_line(spark, table, tmp_path, stored):
    """The file of the catalog is there, but Spark's processes cannot open it to write."""
    folder = Path(table._store.storage.root) / "data"
    folder.write_text("in the way")
    good = spark.range(0, 100_000, 1, 2).selectExpr("concat('k', id) AS key", "CAST(id AS INT) AS n", "1D AS x")
    error = error_of(lambda: save(good))
    assert isinstance(error, sl.StorageError)
    assert len(table.history()) == 1
