import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.engines.spark import spark_load
from sleeper_nb.load import ingest as load_summary
from sleeper_nb.storage.data_files import is_sorted
from tests.support.builders import InterruptedAfter
from tests.support.combinations import each_value_once, on_engines, some

ON_SPARK = pytest.mark.spark
LOADERS = [pytest.param("spark", marks=ON_SPARK), "local"]

SCHEMA = sl.Schema({"key": "string", "n": "int"}, {"at": "timestamp"}, {"x": "double?", "tags": "list<string>?"})
START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = ["", "a", "b\0", "é", "ß", "中", "\U0001f600", "￿", "z" * 40]


def rows(count, seed=0):
    return [
        {
            "key": KEYS[(i * 7 + seed) % len(KEYS)],
            "n": (i * 31) % 17 - 8,
            "at": START + timedelta(minutes=(i * 13) % 101),
            "x": None if i % 5 == 0 else i / 3,
            "tags": None if i % 4 == 0 else ["a"] * (i % 3),
        }
        for i in range(count)
    ]


@pytest.fixture
def given_spark(request):
    """The Spark session of a test that needs one."""
    return request.getfixturevalue("spark_engine").session() if request.node.get_closest_marker("spark") else None


@pytest.fixture
def session(tmp_path, given_spark):
    with sl.connect(tmp_path, spark=given_spark) as opened:
        yield opened


@pytest.fixture(params=LOADERS)
def engine(request):
    """What loads: tasks of Spark, or threads of this process."""
    return request.param


@pytest.fixture
def table(session):
    return session.create_table("t", SCHEMA, ["b", "é", "中", "\U0001f600"])


def content(found):
    return sorted(map(repr, found.to_arrow().to_pylist()))


def parquet_files(session):
    return sorted(
        path.relative_to(Path(session.location)).as_posix()
        for path in Path(session.location).rglob("data/**/*.parquet")
    )


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        *each_value_once(["pandas", "rows", "path", "arrow"], LOADERS),
        pytest.param("spark", "spark", marks=ON_SPARK),
    ],
    indirect=["engine"],
)
def test_bulk_import_holds_the_same_rows_as_ingest(session, table, tmp_path, kind, engine):
    data = rows(500)
    arrow = pa.Table.from_pylist(data, schema=SCHEMA.arrow)
    given = {
        "pandas": lambda: arrow.drop_columns(["tags"]).to_pandas(),
        "arrow": lambda: arrow,
        "spark": lambda: session.spark_session.createDataFrame(arrow),
        "path": lambda: pq.write_table(arrow, tmp_path / "in.parquet") or str(tmp_path / "in.parquet"),
        "rows": lambda: data,
    }[kind]()
    snapshot = table.bulk_import(given, message="through Spark", engine="auto" if kind == "spark" else engine).snapshot
    other = session.create_table("other", SCHEMA, ["k"])
    other.ingest(given if kind in {"pandas", "arrow", "rows", "path"} else arrow)
    assert (snapshot.id, snapshot.rows, snapshot.message) == (2, 500, "through Spark")
    assert content(table.scan()) == content(other.scan())


def test_each_leaf_gets_one_sorted_file_of_its_own_keys(session, table, engine):
    snapshot = table.bulk_import(rows(800), engine=engine).snapshot
    assert snapshot.files == snapshot.added_files == len(parquet_files(session)) == 5
    state = table.at().state
    for reference in state.files.active_in({leaf.id for leaf in state.tree.leaves}):
        found = pq.read_table(Path(session.location) / table.entry.id / reference.filename)
        assert found.num_rows == reference.rows
        assert is_sorted(found.select(SCHEMA.sort_order))
        region = state.tree[reference.partition_id].region
        assert all(key in region for key in zip(*found.select(["key", "n"]).to_pydict().values(), strict=True))


def test_byte_keys_are_unsigned_and_many_leaves_share_no_file(session, engine):
    schema = sl.Schema({"b": "bytearray"}, values={"i": "long"})
    points = [bytes([i]) for i in range(16, 256, 16)]
    table = session.create_table("bytes", schema, points)
    table.bulk_import([{"b": bytes([i % 256, i // 256]), "i": i} for i in range(1024)], engine=engine)
    assert table.scan().count() == 1024
    assert [leaf["rows"] for leaf in table.inspect.partitions()] == [64] * 16
    assert table.scan(keys=b"\xff\x01").to_arrow()["i"].to_pylist() == [511]


@pytest.mark.parametrize(
    ("change", "words"),
    some(
        [
            ({"n": None}, "'n' has"),
            ({"extra": 1}, "unknown column 'extra'"),
            ({"n": 2**40}, "'n'"),
            ({"x": "much"}, "'x'"),
        ]
    ),
)
def test_rows_that_do_not_fit_add_nothing_at_all(session, table, spark_engine, change, words):
    data = rows(200)
    frame = pd.DataFrame([*data, {**data[0], **change}]).drop(columns="tags")
    if "n" in change:
        frame["n"] = frame["n"].astype("Int64")
    if "x" in change:
        frame["x"] = frame["x"].astype(str)
    spark_frame = spark_engine.session().createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    with pytest.raises(sl.InvalidInput, match=words):
        table.bulk_import(spark_frame)
    assert table.history()[0].id == 1
    assert parquet_files(session) == []


@ON_SPARK
def test_compaction_on_spark_keeps_every_row_and_every_old_version(session, table):
    for seed in range(4):
        table.ingest(rows(300, seed))
    before = content(table.scan())
    report = table.maintenance.compact("all", engine="spark")
    assert len(report.jobs) == len(report.snapshots) == 5
    assert table.history()[0].files == 5
    assert content(table.scan()) == before
    assert content(table.scan(version=3)) == sorted(map(repr, pa.Table.from_pylist(
        [*rows(300, 0), *rows(300, 1)], schema=SCHEMA.arrow).to_pylist()))  # fmt: skip
    assert not table.maintenance.compact("all", engine="spark").jobs


@ON_SPARK
def test_spark_and_arrow_read_the_same_region(table):
    table.ingest(rows(400))
    for region in ({"key": ("b", "中")}, {"key": ("é", None), "n": (-3, 4)}, {"n": (0, 1)}):
        scan = table.scan(region=region, where="x > 10")
        frame = scan.to_spark()
        assert content(scan) == sorted(map(repr, pa.Table.from_batches(
            frame.toArrow().to_batches()).cast(SCHEMA.arrow).to_pylist()))  # fmt: skip
        assert content(scan) == sorted(map(repr, scan.to_duckdb().to_arrow_table().cast(SCHEMA.arrow).to_pylist()))


@ON_SPARK
def test_an_empty_table_reads_empty_everywhere(table):
    assert table.scan().to_spark().count() == 0
    assert table.scan().to_duckdb().fetchall() == []
    assert table.scan().to_arrow().schema == SCHEMA.arrow


def test_an_interrupted_compaction_keeps_what_was_committed_and_leaves_nothing_else(tmp_path, spark_engine):
    with sl.connect(tmp_path, spark=spark_engine.session(), progress=InterruptedAfter(2)) as session:
        table = session.create_table("t", SCHEMA, ["b", "é", "中", "\U0001f600"])
        for seed in range(3):
            table.ingest(rows(300, seed))
        before = content(table.scan())
        with pytest.raises(KeyboardInterrupt):
            table.maintenance.compact("all", engine="spark")
        assert table.history()[0].id == 4 + 2
        assert content(table.scan()) == before
        tracked = {row["filename"] for row in table.at().state.files.table.to_pylist()}
        assert {name.partition("/")[2] for name in parquet_files(session)} == tracked
        assert not session._components.catalog.claims(table.entry.id, datetime.now(UTC))


def test_actions_run_side_by_side_and_stop_at_the_first_failure(spark_engine):
    def fails(_):
        raise ValueError("the third")

    actions = [lambda _, n=n: n for n in range(2)]
    assert sorted(spark_engine.run_each(actions, "two")) == [0, 1]
    with pytest.raises(ValueError, match="the third"):
        list(spark_engine.run_each([*actions, fails], "three"))


def test_a_check_that_raises_cancels_what_runs(spark_engine):
    calls = []

    def stop():
        calls.append(1)
        if len(calls) > 10:
            raise sl.Cancelled("enough")

    def slow(spark):
        spark.sparkContext.parallelize([1], 1).foreach(lambda _: threading.Event().wait(120))

    with pytest.raises(sl.Cancelled):
        list(spark_engine.run_each([slow], "slow", check=stop))
    assert not spark_engine.session().sparkContext.statusTracker().getActiveJobsIds()


@ON_SPARK
def test_a_compaction_in_the_background_runs_on_spark_and_is_told_of(table):
    for seed in range(3):
        table.ingest(rows(300, seed))
    before = content(table.scan())
    job = table.maintenance.start_compaction("all", engine="spark")
    assert len(job.result(timeout=120).jobs) == 5
    assert content(table.scan()) == before
    assert [(one.kind, one.state) for one in table.inspect.jobs()] == [("compaction", "FINISHED")] * 5
    assert all(one.started and one.rows_per_second for one in table.inspect.jobs())


def test_a_bulk_import_is_told_of_and_its_job_id_adds_once(session, table, engine):
    first = table.bulk_import(rows(50), job_id="2026-11-21/t", engine=engine)
    again = table.bulk_import(rows(50), job_id="2026-11-21/t", engine=engine)
    table.bulk_import(rows(5), engine=engine)
    assert (again.snapshot_id, first.snapshot.job_id, table.scan().count()) == (first.snapshot_id, "2026-11-21/t", 55)
    assert [(job.kind, job.state, job.rows_written) for job in table.inspect.jobs()] == [
        ("bulk-import", "FINISHED", 5),
        ("bulk-import", "FINISHED", 50),
    ]
    with pytest.raises(sl.InvalidInput):
        table.bulk_import([{"wrong": 1}], engine=engine)
    assert table.inspect.jobs("failed")[0].kind == "bulk-import"
    assert len(parquet_files(session)) == len(table.at().state.files.table)


# Sources


def write_files(folder):
    """Write files of every kind, with values that a guess from the first rows would get wrong."""
    folder.mkdir()
    lines = [f"é{i},{i % 5},2026-01-01,{'' if i % 3 else i}" for i in range(5)]
    lines += ["z,1,2026-01-01T12:00:00+02:00,nan", "001,1,2026-01-01 10:00:00.5,1"]
    (folder / "a.csv").write_text("\n".join(["key,n,at,x", *lines]) + "\n")
    (folder / "b.json").write_text(
        '{"key": "j", "n": 1, "at": "2026-01-01 10:00:00", "tags": ["a", null]}\n'
        '{"key": "k", "n": 2, "at": "2026-01-01T10:00:00Z", "x": 1.5}\n'
    )
    arrow = pa.Table.from_pylist(rows(500), schema=SCHEMA.arrow)
    nanoseconds = arrow.set_column(2, "at", arrow["at"].cast(pa.timestamp("ns", "Asia/Tokyo")))
    pq.write_table(nanoseconds, folder / "c [1].parquet", row_group_size=50)
    pq.write_table(arrow.drop_columns(["tags", "x"]), folder / "d=1.parquet")


def test_files_give_the_same_rows_by_spark_as_in_process(session, table, tmp_path, monkeypatch, engine):
    monkeypatch.setattr(spark_load, "slice_bytes", lambda _: 2000)  # several tasks for one Parquet file
    write_files(tmp_path / "in")
    other = session.create_table("other", SCHEMA)
    assert table.bulk_import(tmp_path / "in", engine=engine).rows == other.ingest(tmp_path / "in").rows == 1009
    assert content(table.scan()) == content(other.scan())


def test_several_sources_are_one_import(session, table, tmp_path, engine):
    write_files(tmp_path / "in")
    given = [str(tmp_path / "in" / "*.csv"), pa.Table.from_pylist(rows(3), schema=SCHEMA.arrow), tmp_path / "in/b.json"]
    other = session.create_table("other", SCHEMA)
    assert (table.bulk_import(given, engine=engine).snapshot_id, other.ingest(given).snapshot_id) == (2, 2)
    assert content(table.scan()) == content(other.scan())
    assert table.scan().count() == 12


@pytest.mark.parametrize(
    ("engine", "name", "text"),
    on_engines(
        [
            ("a.csv", "key,n,at\na,1,2026-01-01\na,x,2026-01-01\n"),
            ("a.csv", "key,n,at\na,1,2026-01-01\na,1,soon\n"),
            ("a.csv", "key,n,at\na,1,\n"),
            ("a.csv", "key,n,when\na,1,2026-01-01\n"),
            ("a.csv", "key,n\n"),
            ("a.csv", "key,n,at\na,1\n"),
            ("a.json", '{"key": "a", "n": 1.5, "at": "2026-01-01"}\n'),
            ("a.json", '{"key": "a", "m": 1, "at": "2026-01-01"}\n'),
            ("a.parquet", "no"),
        ],
        engines=("local", "spark"),
    ),
    indirect=["engine"],
)
def test_files_that_do_not_fit_give_the_same_error_by_spark_as_in_process(session, table, tmp_path, name, text, engine):
    (tmp_path / name).write_text(text)
    told = []
    for add in (table.ingest, partial(table.bulk_import, engine=engine)):
        with pytest.raises(sl.SleeperError) as error:
            add(tmp_path / name)
        told.append((type(error.value), error.value.message, error.value.hint))
    assert told[0] == told[1]
    assert table.at().resolved.snapshot_id == 1
    assert parquet_files(session) == []


def test_a_dry_run_of_a_spark_frame_equals_its_run(table, spark_engine):
    frame = spark_engine.session().createDataFrame(pa.Table.from_pylist(rows(300), schema=SCHEMA.arrow)).repartition(3)
    plan = table.ingest(frame, dry_run=True).plan
    assert plan == table.bulk_import(rows(300), dry_run=True, engine="spark").plan
    assert (plan.rows, plan.files, plan.through_spark, table.at().resolved.snapshot_id) == (300, 5, True, 1)
    table.ingest(frame)
    assert [leaf.rows for leaf in plan.leaves] == [leaf["rows"] for leaf in table.inspect.partitions()]


def test_a_dry_run_of_a_spark_frame_tells_all_differences(table, spark_engine):
    arrow = pa.Table.from_pylist(rows(300), schema=SCHEMA.arrow)
    wide = arrow.set_column(1, "n", pa.array([2**40] * 300)).rename_columns(["key", "n", "at", "x", "tag"])
    plan = table.ingest(spark_engine.session().createDataFrame(wide), dry_run=True).plan
    assert [(d.column, d.change[:6]) for d in plan.differences] == [("tag", "rename"), ("n", "round ")]
    with pytest.raises(sl.InvalidInput, match="unknown column 'tag'"):
        table.ingest(spark_engine.session().createDataFrame(wide))


# Strategies, order, size


def test_one_file_for_all_leaves_is_cut_to_each_by_every_engine(session, engine):
    table = session.create_table(
        "shared",
        SCHEMA,
        ["b", "é", "中"],
        properties={"sleeper.table.ingest.file.writing.strategy": "one_reference_per_leaf"},
    )
    plan = table.bulk_import(rows(400), dry_run=True, engine=engine).plan
    for _ in range(2):
        table.bulk_import(rows(400), engine=engine)
    assert plan.files == 1
    assert len(parquet_files(session)) == 2
    assert [leaf.rows for leaf in plan.leaves] * 2 == [
        r["rows"] for s in (2, 3) for leaf in table.inspect.partitions() for r in table.inspect.files()
        if r["partition_id"] == leaf["partition_id"] and r["added_snapshot"] == s
    ]  # fmt: skip
    expected = sorted(map(repr, pa.Table.from_pylist(rows(400) * 2, schema=SCHEMA.arrow).to_pylist()))
    assert content(table.scan()) == expected
    if engine == "spark":
        found = table.scan().to_spark().toArrow().cast(SCHEMA.arrow)
        assert sorted(map(repr, found.to_pylist())) == expected
    assert len(table.maintenance.compact("all", engine=engine).jobs) == 4
    assert content(table.scan()) == expected
    assert table.maintenance.check(deep=True).ok


def test_keys_of_all_types_are_in_one_order_by_spark_and_in_process(session, engine):
    schema = sl.Schema(
        {"s": "string", "b": "bytearray", "i": "int", "l": "long"},
        {"ss": "string", "sb": "bytearray", "t": "timestamp", "d": "date"},
        {"x": "double?"},
    )
    texts = ["", "\0", "a", "é", "\uffff", "\U0001f600"]
    blobs = [b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]
    random = np.random.default_rng(5)
    ints, longs = [-(2**31), -1, 0, 2**31 - 1], [-(2**63), -1, 0, 2**63 - 1]
    moments = [START, START + timedelta(microseconds=1), datetime(1900, 1, 1, tzinfo=UTC)]
    values = [texts, blobs, ints, longs, texts, blobs, moments, [m.date() for m in moments], [None, float("nan"), -0.0]]
    data = [
        {f.name: v[random.integers(len(v))] for f, v in zip(schema.fields, values, strict=True)} for _ in range(2000)
    ]
    points = ["\0", "é", "\uffff", "\U0001f600"]
    tables = [session.create_table(name, schema, points) for name in ("spark", "arrow")]
    tables[0].bulk_import(data, engine=engine)
    tables[1].ingest(data)
    assert [leaf["rows"] for leaf in tables[0].inspect.partitions()] == [
        leaf["rows"] for leaf in tables[1].inspect.partitions()
    ]
    keys = [f.name for f in schema.fields][:-1]
    expected = sorted(tuple(row[name] for name in keys) for row in data)
    for table in tables:
        table.ingest(data[:500])
        table.bulk_import(data[500:1000], engine=engine)
        table.maintenance.compact("all", engine=engine)
        read = table.scan().to_arrow()
        found = list(zip(*(read[name].to_pylist() for name in keys), strict=True))
        assert found == sorted([*expected, *(tuple(row[name] for name in keys) for row in data[:1000])])
        assert sum(map(np.isnan, filter(lambda v: v is not None, read["x"].to_pylist()))) == sum(
            row["x"] is not None and np.isnan(row["x"]) for row in [*data, *data[:1000]]
        )
        for low, high in (("", "\0"), ("é", "\U0001f600"), ("\U0001f600", None)):
            want = sum(row["s"] >= low and (high is None or row["s"] < high) for row in [*data, *data[:1000]])
            assert table.scan(region={"s": (low, high)}).count() == want
        assert table.scan(keys=("é", b"\x80", -(2**31), 2**63 - 1)).count() == sum(
            (row["s"], row["b"], row["i"], row["l"]) == ("é", b"\x80", -(2**31), 2**63 - 1)
            for row in [*data, *data[:1000]]
        )


@ON_SPARK
def test_a_table_of_a_thousand_columns_works(session):
    values = {f"column_{i}": ("double?", "long?", "string?", "boolean?")[i % 4] for i in range(1000)}
    table = session.create_table("wide", sl.Schema({"key": "string"}, values=values), ["m"])
    data = pa.Table.from_pylist(
        [{"key": key, "column_0": 1.5, "column_1": 2, "column_998": "z"} for key in "axbz"]
    )  # fmt: skip
    table.ingest(data)
    table.bulk_import(data)
    table.maintenance.compact("all", engine="spark")
    assert table.scan(["key", "column_998"], where="column_1 = 2").to_arrow()["key"].to_pylist() == list("aabbxxzz")


class LastLine:
    """A watcher that keeps what stays."""

    def __init__(self):
        self.lines = []

    def update(self, text, done=0, total=0):
        pass

    def finish(self, text=""):
        self.lines += [text] if text else []


def test_the_last_line_tells_the_rate_and_a_leaf_that_got_far_too_much(tmp_path, given_spark, monkeypatch, engine):
    monkeypatch.setattr(load_summary, "SUMMARY_ROWS", 100)
    watcher = LastLine()
    with sl.connect(tmp_path, spark=given_spark, progress=watcher) as session:
        table = session.create_table("t", sl.Schema({"carrier": "string"}), ["DL", "MQ", "UA"])
        table.bulk_import([{"carrier": "UA"}] * 99, engine=engine)
        made = table.bulk_import([{"carrier": "UA"}] * 81 + [{"carrier": "AA"}] * 19, message="mine", engine=engine)
    (line,) = watcher.lines
    assert line.startswith("100 rows in 2 files, ")
    assert "rows/s; leaf carrier [UA, ∞) got 81% of the rows: split it" in line
    assert made.snapshot.message == "mine"


def test_a_command_in_a_frame_is_not_run_again_by_a_load(session, spark_engine):
    spark = spark_engine.session()
    shown = spark.sql("SHOW TABLES")
    names = [each.tableName for each in shown.collect()]
    spark.range(1).createOrReplaceTempView("made_after_it")
    try:
        schema = sl.Schema({"tableName": "string"}, {}, {"namespace": "string", "isTemporary": "boolean"})
        table = session.create_table("shown", schema)
        table.ingest(shown)
        assert sorted(row["tableName"] for row in table.scan()) == sorted(names)
    finally:
        spark.catalog.dropTempView("made_after_it")
