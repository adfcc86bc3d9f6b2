"""Each setting of data files is seen in the files of every writer: ingest, compaction and import, on Spark too."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput
from sleeper_nb.model.properties import CODECS, TableProperties
from sleeper_nb.storage.data_files import DataFileSettings

SCHEMA = sl.Schema({"k": "string"}, {"s": "int"}, {"v": "string", "tags": "map<string,list<string>>?"})
PREFIX = "sleeper.table.parquet"
DICTIONARIES = [f"{PREFIX}.dictionary.encoding.{part}.fields" for part in ("rowkey", "sortkey", "value")]


def rows(first=0):
    count = 1000
    return pa.table(
        {
            "k": [f"key {i:06}" for i in range(first, first + count)],
            "s": pa.array([i % 3 for i in range(count)], pa.int32()),
            "v": ["even" if i % 2 else "odd" for i in range(count)],
            "tags": pa.array([[("a", ["b"])]] * count, pa.map_(pa.string(), pa.list_(pa.string()))),
        }
    )


def ingested(table):
    table.ingest(rows())


def imported(table):
    table.bulk_import(rows())


def compacted(table, engine="local"):
    table.ingest(rows())
    table.ingest(rows(5))
    table.maintenance.compact("all", engine=engine)


def compacted_on_spark(table):
    compacted(table, "spark")


WRITERS = [
    ingested,
    compacted,
    pytest.param(imported, marks=pytest.mark.spark),
    pytest.param(compacted_on_spark, marks=pytest.mark.spark),
]


@pytest.fixture(params=WRITERS)
def written(request, tmp_path):
    """Write rows in one way, under some properties; give the path of the file."""
    spark = "spark" in str(request.node.get_closest_marker("spark"))
    engine = request.getfixturevalue("spark_engine").session() if spark else None

    def write(**properties):
        with sl.connect(tmp_path, spark=engine) as session:
            table = session.create_table("t", SCHEMA, properties={name.strip(): v for name, v in properties.items()})
            request.param(table)
            (file,) = table.inspect.files()
            return Path(session.location) / table.entry.id / file["filename"]

    return write


def columns(path):
    group = pq.read_metadata(path).row_group(0)
    return {(column := group.column(i)).path_in_schema: column for i in range(group.num_columns)}


def dictionaries(path):
    return {name.partition(".")[0] for name, column in columns(path).items() if column.has_dictionary_page}


def page_version(path):
    """Read the type of the first data page from its header: Parquet's thrift has it in the first field."""
    with Path.open(path, "rb") as file:
        file.seek(columns(path)["k"].data_page_offset)
        return {b"\x15\x00": 1, b"\x15\x06": 2}[file.read(2)]


def test_files_of_a_table_without_properties_have_the_defaults(written):
    path = written()
    found = pq.read_metadata(path)
    assert found.num_row_groups == 1
    assert {column.compression for column in columns(path).values()} == {"ZSTD"}
    assert page_version(path) == 2
    assert dictionaries(path) == {"s", "v", "tags"}
    assert all(column.has_column_index for name, column in columns(path).items() if name in {"k", "s", "v"})
    assert all(column.has_offset_index for column in columns(path).values())


def test_files_are_written_as_the_properties_say(written):
    on = dict.fromkeys(DICTIONARIES, "false") | {DICTIONARIES[0]: "true"}
    path = written(**{
        f"{PREFIX}.rowgroup.rows.max": "300", f"{PREFIX}.compression.codec": "gzip",
        f"{PREFIX}.writer.version": "v1", **on,
    })  # fmt: skip
    found = pq.read_metadata(path)
    assert {found.row_group(i).num_rows for i in range(found.num_row_groups - 1)} == {300}
    assert {column.compression for column in columns(path).values()} == {"GZIP"}
    assert page_version(path) == 1
    assert dictionaries(path) == {"k"}


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_can_be_written_and_read(tmp_path, codec):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", SCHEMA, properties={f"{PREFIX}.compression.codec": codec})
        ingested(table)
        (file,) = table.inspect.files()
        (found,) = {c.compression for c in columns(f"{session.location}/{table.entry.id}/{file['filename']}").values()}
        assert found.lower().removesuffix("_raw") == codec.replace("none", "uncompressed")
        assert table.scan(limit=1).to_arrow().num_rows == 1


def test_smaller_pages_are_more_pages(tmp_path):
    sizes = []
    for size in ("1024", "1048576"):
        with sl.connect(tmp_path / size) as session:
            table = session.create_table("t", SCHEMA, properties={f"{PREFIX}.page.size": size})
            table.ingest(pa.concat_tables([rows(first) for first in range(0, 20_000, 1000)]))
            (file,) = table.inspect.files()
            path = Path(session.location) / table.entry.id / file["filename"]
            sizes.append(columns(path)["k"].total_uncompressed_size)  # each page has a header
    assert sizes[0] > sizes[1]


def test_a_dictionary_that_outgrows_its_page_is_given_up(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", SCHEMA, properties={DICTIONARIES[0]: "true", f"{PREFIX}.page.size": "1024"})
        table.ingest(pa.concat_tables([rows(first) for first in range(0, 20_000, 1000)]))
        (file,) = table.inspect.files()
        column = columns(Path(session.location) / table.entry.id / file["filename"])["k"]
        assert "PLAIN" in column.encodings
        assert column.total_uncompressed_size < 20_000 * 40


@pytest.mark.parametrize(
    ("name", "text"),
    [("rowgroup.rows.max", "0"), ("page.size", "12"), ("compression.codec", "lzo"), ("writer.version", "3"),
     ("dictionary.encoding.value.fields", "yes")],
)  # fmt: skip
def test_a_setting_that_no_writer_can_honour_is_refused(name, text):
    with pytest.raises(InvalidInput, match=name):
        TableProperties({f"{PREFIX}.{name}": text})


def test_the_properties_defaults_are_the_writers_defaults():
    assert DataFileSettings.of(TableProperties({})) == DataFileSettings()


NUMBERS = sl.Schema(
    {"id": "long"}, {"at": "timestamp"}, {"few": "long", "any": "long?", "x": "double", "text": "string"}
)


def of_numbers(count=50_000):
    """Return rows whose keys and times grow slowly, with a few large numbers again and again, and any numbers."""
    random = np.random.default_rng(7)
    few = random.integers(-(2**62), 2**62, 9)[np.arange(count) % 9]
    any_numbers = random.integers(-(2**63), 2**63 - 1, count)
    any_numbers[:4] = [2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]
    return pa.table({
        "id": np.arange(count) * 3, "at": pa.array(np.arange(count) * 1_000_000 + 7, pa.timestamp("us", "UTC")),
        "few": few, "any": pa.array(any_numbers, mask=np.arange(count) % 100 == 5),
        "x": np.arange(count) / 7, "text": [f"text {i}" for i in range(count)],
    })  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_numbers_that_differ_little_are_kept_as_differences_and_only_repeated_values_in_dictionaries(tmp_path, version):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", NUMBERS, properties={f"{PREFIX}.writer.version": version})
        table.ingest(of_numbers())
        (file,) = table.inspect.files()
        found = columns(Path(session.location) / table.entry.id / file["filename"])
        ways = {name: {*column.encodings} - {"RLE"} for name, column in found.items()}
        differences = {"DELTA_BINARY_PACKED"} if version == "v2" else {"PLAIN"}
        assert {name: ways[name] for name in ("id", "at", "any", "x", "text")} == {
            "id": differences, "at": differences, "any": {"PLAIN"}, "x": {"PLAIN"}, "text": {"PLAIN"},
        }  # fmt: skip
        assert found["few"].has_dictionary_page
        assert table.scan().to_arrow().equals(of_numbers().cast(table.schema.arrow))
        on_duckdb = session.sql("SELECT * FROM t ORDER BY id", engine="duckdb").to_arrow()
        assert on_duckdb["any"].to_pylist() == of_numbers()["any"].to_pylist()


@pytest.mark.spark
def test_spark_reads_numbers_that_are_kept_as_differences(tmp_path):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", NUMBERS)
        table.ingest(of_numbers())
        on_spark = session.sql("SELECT id, at, few, any FROM t ORDER BY id", engine="spark").to_arrow()
        rows = table.scan().to_arrow()
        assert [on_spark[name].to_pylist() for name in ("id", "at", "few", "any")] == [
            rows[name].to_pylist() for name in ("id", "at", "few", "any")
        ]
