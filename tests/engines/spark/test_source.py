from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, IsNull
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import sleeper_nb as sl
from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.instance_place import InstancePlace
from sleeper_nb.engines.spark.source import source_of
from sleeper_nb.engines.spark.spark_errors import explain
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.engines.spark.spark_settings import PUSHDOWN
from sleeper_nb.progress import Silent
from sleeper_nb.session import open_source_table
from sleeper_nb.versions import leases
from tests.support.builders import in_order
from tests.support.combinations import some

SCHEMA = sl.Schema({"key": "string", "n": "int"}, {"at": "timestamp"}, {"x": "double?"})
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(*keys, at=START):
    return [{"key": key, "n": n, "at": at, "x": None if n % 2 else n / 3} for n, key in enumerate(keys)]


@pytest.fixture
def spark(spark_engine):
    return spark_engine.session()


@pytest.fixture
def table(session):
    made = session.create_table("t", SCHEMA, ["b", "d"])
    made.ingest(rows(*"abcdef"))
    made.create_savepoint("early")
    made.ingest(rows("a", "z"))
    return made


def load(spark, **options):
    named = {name.replace("_", "-"): value for name, value in {"table": "t", **options}.items()}
    return spark.read.format("sleeper").options(**named).load()


def at(spark, name, value):
    return spark.read.format("sleeper").option("table", "t").option(name, value).load()


def content(frame):
    return in_order(frame.toArrow().to_pylist())


def scanned(table, **version):
    return in_order(table.scan(**version).to_arrow().to_pylist())


def content_where(frame, conditions):
    """Return for each condition the content of a frame where it holds; one job finds all of them."""
    found = frame.selectExpr("*", *(f"{each} AS kept_{number}" for number, each in enumerate(conditions)))
    rows = found.toArrow().to_pylist()
    return [
        in_order([{name: row[name] for name in frame.columns} for row in rows if row[f"kept_{number}"]])
        for number in range(len(conditions))
    ]


def error_of(action):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, which depends on where it plans
        action()
    return explain(caught.value)


def test_the_current_version_needs_no_option_but_the_table(spark, table):
    assert content(load(spark)) == scanned(table)
    assert content(spark.read.format("sleeper").load("T")) == scanned(table)


def test_each_version_option_reads_its_version(spark, table):
    first, second = table.history()[1], table.history()[0]
    assert len(scanned(table, version=first.id)) == 6
    for name, value in [
        ("scan.snapshot-id", first.id),
        ("scan.savepoint-id", "early"),
        ("scan.timestamp", str(second.time - timedelta(microseconds=1))),
    ]:
        assert content(at(spark, name, value)) == scanned(table, version=first.id), name
    assert content(at(spark, "scan.timestamp", str(second.time))) == scanned(table)


def test_a_region_limits_the_rows_and_a_wrong_one_is_an_error_at_once(spark, table):
    assert content(at(spark, "scan.region", "key=[b,e)")) == scanned(table, keys=["b", "c", "d"])
    error = error_of(lambda: at(spark, "scan.region", "nothing=1"))
    assert "nothing" in error.message


def test_a_condition_of_an_option_limits_the_rows_and_a_wrong_one_is_an_error_at_once(spark, table):
    frame = at(spark, "scan.where", "key >= 'b' AND key < 'e'")
    assert content(frame) == scanned(table, keys=["b", "c", "d"])
    assert content(frame.filter("key = 'c'")) == scanned(table, keys="c")
    error = error_of(lambda: at(spark, "scan.where", "nothing = 1"))
    assert "nothing" in error.message
    error = error_of(lambda: at(spark, "scan.where", "now() IS NULL"))
    assert "'now' has another value later or elsewhere" in error.message


def test_a_frame_stays_at_the_version_it_was_loaded_with(spark, table):
    frame = load(spark)
    before = content(frame)
    table.ingest(rows("new"))
    assert content(frame) == before
    assert load(spark).count() == len(before) + 1


def test_a_savepoint_whose_snapshot_has_expired_is_read(spark, table):
    before = scanned(table, version="savepoint.early")
    table.maintenance.compact()
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
    assert content(at(spark, "scan.savepoint-id", "early")) == before
    error = error_of(lambda: at(spark, "scan.snapshot-id", 1))
    assert isinstance(error, sl.NotFound)
    assert error.message == "no snapshot 1 of table 't'"


def test_every_type_comes_as_spark_has_it(spark, session):
    schema = sl.Schema(
        {"b": "bytearray", "l": "long"},
        {"d": "date"},
        {
            "price": "decimal(10,2)?",
            "f": "float?",
            "ok": "boolean?",
            "tags": "list<string>?",
            "m": "map<string,long>?",
            "deep": "map<string,list<decimal(5,1)>>?",
            "at": "timestamp?",
        },
    )
    table = session.create_table("t", schema)
    full = {
        "b": b"\xff\0", "l": 2**62, "d": date(2026, 2, 3), "price": Decimal("1.25"), "f": 0.5, "ok": True,
        "tags": ["a", None], "m": {"k": 1}, "deep": {"k": [Decimal("2.5")]}, "at": START + timedelta(microseconds=1),
    }  # fmt: skip
    nulls = {"b": b"", "l": -1, "d": date(1969, 1, 1)}
    table.ingest(pa.Table.from_pylist([full, nulls], schema=schema.arrow))
    frame = load(spark)
    assert frame.schema == table.scan().to_spark().schema
    assert frame.orderBy("l").collect() == table.scan().to_spark().orderBy("l").collect()


def test_a_schema_that_is_given_chooses_columns(spark, session):
    table = session.create_table("t", sl.Schema({"Key": "string"}, values={"v": "int", "W": "int"}))
    table.ingest([{"Key": "x", "v": 1, "W": 2}])
    few = spark.read.format("sleeper").schema("W int, Key string").load("t")
    assert [tuple(row) for row in few.collect()] == [(2, "x")]
    error = error_of(spark.read.format("sleeper").schema("nothing int").load("t").collect)
    assert (type(error), error.message) == (sl.NotFound, "no column 'nothing'")


def test_an_empty_table_and_empty_leaves(spark, session):
    table = session.create_table("t", SCHEMA, ["m"])
    assert load(spark).count() == 0
    table.ingest(rows("a"))
    assert content(load(spark)) == scanned(table)


def test_leaves_are_read_side_by_side(spark, session):
    table = session.create_table("t", SCHEMA, ["b", "c", "d"])
    table.ingest(rows(*"abcd"))
    frame = load(spark)
    assert frame.rdd.getNumPartitions() == 2  # two cores, little files
    assert content(frame) == scanned(table)


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"sleeper.table.filters": "ageOff(at,86400000)"}, marks=pytest.mark.long),
        {"sleeper.table.aggregations": "sum(visits)"},
        {"sleeper.table.iterator.class.name": "tests.support.iterators:at_most", "sleeper.table.iterator.config": "1"},
    ],
)
def test_filters_iterators_and_aggregations_apply(spark, session, properties):
    schema = sl.Schema({"key": "string"}, {"at": "timestamp"}, {"visits": "long"})
    session.allow(["tests.support.iterators:at_most"])
    table = session.create_table("t", schema, ["m"], properties=properties)
    now = datetime.now(UTC)
    for day in (0, 3):
        table.ingest(
            [{"key": key, "at": now - timedelta(days=day), "visits": 1 + (key == "z")} for key in ("a", "a", "z")]
        )
    assert content(load(spark)) == scanned(table)
    assert content(load(spark).where("key = 'z'")) == scanned(table, keys="z")


def test_files_that_leaves_share_are_read_once_for_each(spark, session):
    table = session.create_table("t", SCHEMA)
    table.ingest(rows(*"abcdef"))
    table.maintenance.split(at="c")
    table.maintenance.split(at="e")
    assert content(load(spark)) == scanned(table)


CONDITIONS = [
    "key >= 'b' AND key < 'd'",
    "key > 'b' AND n <= 4",
    "key IN ('a', 'e', 'nothing')",
    "key LIKE 'z%'",
    "key = 'c' AND n = 1000",
    "key IS NULL",
    "key <> 'a' AND x IS NOT NULL",
    "n > 2147483646",
    "n = 1.0",
]


@pytest.mark.parametrize("pushed", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_conditions_give_the_same_rows_with_and_without_pushed_filters(spark, table, tmp_path, pushed):
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, pushed)
    try:
        with sl.connect(tmp_path / "w", instance="demo", spark=spark):
            frame, peer = load(spark), table.scan().to_spark()
            for condition, expected in zip(CONDITIONS, content_where(peer, CONDITIONS), strict=True):
                assert content(frame.where(condition)) == expected, condition
    finally:
        spark.conf.set(PUSHDOWN, before)


def files_of(tmp_path, filters):
    """Return how many files are planned, by a reader in this process."""
    kind = source_of(InstancePlace(str(tmp_path / "w"), "demo"), open_source_table, 2, prunes=True)
    reader = kind({"table": "t"}).reader(StructType())
    assert list(reader.pushFilters(filters)) == filters
    return sum(len(group) for task in reader.partitions() for group in task.groups)


def test_comparisons_of_row_keys_leave_files_unopened(tmp_path, table):
    assert files_of(tmp_path, []) == 5
    assert files_of(tmp_path, [EqualTo(("key",), "c")]) == 1
    assert files_of(tmp_path, [GreaterThanOrEqual(("key",), "x")]) == 1
    assert files_of(tmp_path, [EqualTo(("key",), "x")]) == 0
    assert files_of(tmp_path, [EqualTo(("x",), 1.0)]) == 5


def test_a_long_read_holds_its_version_from_its_plan_to_the_end_of_its_last_task(tmp_path, table, monkeypatch):
    monkeypatch.setattr(leases, "LONG_READ", 1)
    before = scanned(table, version="savepoint.early")
    kind = source_of(InstancePlace(str(tmp_path / "w"), "demo"), open_source_table, 2, prunes=True)
    tasks = kind({"table": "t", "version": "savepoint.early"}).reader(StructType()).partitions()
    (planned,) = table.inspect.leases()  # the process that planned is gone, and released nothing
    table.maintenance.compact("all", engine="local")
    table.maintenance.expire(dry_run=False, time_retained=timedelta(0), num_retained_min=1)
    table.delete_savepoint("early", force=True)
    columns = from_arrow_schema(SCHEMA.arrow)
    found = []
    for task in pickle.loads(pickle.dumps(tasks)):  # noqa: S301 - as Spark hands them on
        for number, batch in enumerate(task.rows(columns)):
            if number == 0:
                assert [each.snapshot_id for each in table.inspect.leases()] == [planned.snapshot_id] * 2
                table.maintenance.collect_garbage(dry_run=False, delay=timedelta(0))
            found += batch.to_pylist()
    assert in_order(found) == before
    assert list(table.inspect.leases()) == [planned]


def test_a_handed_in_session_knows_the_format_from_the_connection_on_and_the_last_one_counts(spark, tmp_path, table):
    with sl.connect(tmp_path / "other", spark=spark) as other:
        other.create_table("t", SCHEMA).ingest(rows("only"))
        assert load(spark).count() == 1
        place = {"warehouse": str(tmp_path / "w"), "instance": "demo"}
        assert load(spark, **place).count() == 8


def test_each_session_that_an_engine_uses_is_told_of_once(spark):
    seen = []
    engine = SparkRuntime(clock=Clock(), progress=Silent(), on_session=seen.append)
    assert not seen
    used = engine.session()  # the active one: another test may have made a second one active
    assert engine.session() is used
    assert used.sparkContext is spark.sparkContext
    assert seen == [used]


def test_a_temporary_view_has_a_version_of_its_own(spark, table):
    spark.sql("CREATE TEMPORARY VIEW old USING sleeper OPTIONS (table 't', version 'savepoint.early')")
    try:
        counted = spark.sql("SELECT (SELECT count(*) FROM old) AS old, count(*) AS now FROM {new}", new=load(spark))
        assert counted.collect() == [(6, 8)]
    finally:
        spark.catalog.dropTempView("old")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    some([
        ({"table": "tt"}, sl.NotFound, "no table 'tt'"),
        ({"scan.snapshot": "1"}, sl.NotFound, "no option 'scan.snapshot' of the data source"),
        ({"scan.snapshot-id": "99"}, sl.NotFound, "no snapshot 99 of table 't'"),
        ({"scan.savepoint-id": "late"}, sl.NotFound, "no savepoint 'late' of table 't'"),
        (
            {"scan.snapshot-id": "1", "version": "1"},
            sl.InvalidInput,
            "scan.snapshot-id and version both name a version",
        ),
        ({"instance": "nowhere"}, sl.NotFound, "no instance 'nowhere' in"),
    ], every=5),
)  # fmt: skip
def test_what_cannot_be_is_a_short_error_when_the_frame_is_loaded(spark, table, tmp_path, options, kind, message):
    error = error_of(spark.read.format("sleeper").options(**{"table": "t", **options}).load)
    assert type(error) is kind
    assert error.message.startswith(message)
    assert error.hint
    assert not (tmp_path / "w" / "nowhere").exists()


def test_nothing_but_the_table_is_missing(spark, session):
    error = error_of(spark.read.format("sleeper").load)
    assert "which table" in error.message


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    some(
        [
            ({"table": "nope"}, "NotFound: no table 'nope'", "available: t"),
            ({"version": "99"}, "no snapshot 99 of table 't'", "available: 1–3"),
            ({"tabel": "t"}, "no option 'tabel' of the data source", "did you mean 'table'?"),
        ],
        every=3,
    ),
)
def test_spark_itself_shows_an_error_of_the_source_without_a_stack(spark, table, options, message, hint):
    for read in (spark.read, spark.readStream):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own
            read.format("sleeper").options(**{"table": "t", **options}).load()
        text = str(caught.value)
        assert (message in text, f"hint: {hint}" in text, "Traceback" in text) == (True, True, False)
        assert text.splitlines()[1:] == [" SQLSTATE: 38000"]  # Spark's own


def test_a_user_s_own_function_keeps_its_stack_after_an_error_of_the_source(spark, table):
    def fail(batches):
        raise ValueError("mine")
        yield from batches

    for _ in range(2):  # a process of Spark runs several tasks
        with pytest.raises(Exception, match="no table 'nope'"):
            load(spark, table="nope")
        with pytest.raises(Exception, match=r"(?s)Traceback.*in fail.*ValueError: mine"):
            spark.range(1).mapInArrow(fail, "id long").count()


DATED = sl.Schema({"k": "int"}, {"so": "string"}, {"day": "date?", "at": "timestamp?", "n": "long"})


def dated(number):
    begin = datetime(2013, number, 1, tzinfo=UTC)
    return [
        {"k": 1, "so": f"m{number}", "day": begin.date(), "at": begin, "n": number},
        {"k": 2, "so": f"m{number}", "day": None, "at": begin + timedelta(days=9), "n": number},
    ]


def test_statistics_of_value_columns_leave_files_unopened(tmp_path, session):
    table = session.create_table("t", DATED)
    for number in range(1, 7):
        table.ingest(dated(number))
    for filters, files in (
        ([EqualTo(("day",), date(2013, 3, 1))], 1),
        ([GreaterThanOrEqual(("at",), datetime(2013, 5, 10, tzinfo=UTC))], 2),
        ([EqualTo(("so",), "m2")], 1),
        ([EqualTo(("so",), "m2"), EqualTo(("k",), 7)], 0),
        ([IsNull(("at",))], 0),
        ([IsNull(("day",))], 6),
        ([EqualTo(("n",), 3)], 6),
    ):
        assert files_of(tmp_path, filters) == files, filters


def test_statistics_are_not_used_where_rows_are_combined_before_they_are_tested(tmp_path, session):
    schema, summed = sl.Schema({"k": "int"}, {}, {"n": "int"}), {"sleeper.table.aggregations": "sum(n)"}
    table = session.create_table("t", schema, properties={"sleeper.table.statistics.columns": "n", **summed})
    table.ingest([{"k": 1, "n": 5}])
    table.ingest([{"k": 1, "n": 7}])
    assert files_of(tmp_path, [EqualTo(("n",), 12)]) == 2


TIMES = [
    "at < timestamp'2013-02-01'", "at >= timestamp'2013-05-31 20:00:00'", "at > timestamp'2013-11-03 01:30:00'",
    "at = timestamp'2013-06-01 02:00:00'", "at < date'2013-02-01'",
    "at IN (timestamp'2013-06-01', timestamp'2013-07-01')",
    "at = timestamp'2013-06-01 00:00:00 UTC'", "day = '2013-03-01'", "day <=> date'2013-03-01'", "day <=> null",
    "day < date'1582-10-10'", "day <= date'1582-10-15'", "at <= timestamp'1890-01-01 00:00:00'", "at <= '1500-06-01'",
    "day > date'9998-01-01'", "at > timestamp'9998-01-01 00:00:00'", "so LIKE 'm1%'", "n = 3",
]  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "conditions"),
    [
        ("Europe/Amsterdam", TIMES[::3]),
        *(
            pytest.param(zone, TIMES, marks=pytest.mark.long)
            for zone in ("Europe/Amsterdam", "UTC", "America/New_York", "+02:00")
        ),
    ],
)
def test_conditions_on_times_lose_no_row_in_any_time_zone(spark, session, zone, conditions):
    table = session.create_table("t", DATED)
    for number in range(1, 13):
        table.ingest(dated(number))
    for year in (2, 1500, 1582, 1890, 1937, 9999):
        begin = datetime(year, 10, 10, tzinfo=UTC)
        table.ingest([{"k": year, "so": "x", "day": begin.date(), "at": begin, "n": year}])
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = load(spark)
        assert frame.rdd.getNumPartitions() > 1
        assert frame.where("at = timestamp'2013-06-01 00:00:00 UTC'").rdd.getNumPartitions() == 1
        everything = spark.createDataFrame(frame.toArrow())
        for condition, expected in zip(conditions, content_where(everything, conditions), strict=True):
            assert content(frame.where(condition)) == expected, condition
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
