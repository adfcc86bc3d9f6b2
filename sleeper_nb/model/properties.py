"""The properties of tables and instances: names, types, defaults and effects; and the values that are set.

The effects are shown to users: by ``%sleeper properties``, in templates and in docs/reference.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.config_text import entries, line_of
from sleeper_nb.model.expectations import COUNT, REFUSE, Expectation, parse_expectations
from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions
from sleeper_nb.model.processing import (
    AGGREGATIONS,
    DELETE_COLUMN,
    FILTERS,
    ITERATOR,
    ITERATOR_CONFIG,
    PROCESSING_PROPERTIES,
    parse_aggregations,
    parse_filters,
)
from sleeper_nb.model.times import DURATION, parse_duration

if TYPE_CHECKING:
    from sleeper_nb.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Property:
    """One property: `parse` turns its text into a value, or raises ValueError.

    `kind` is what to write as its value, and `effect` what the value does, both for users.
    """

    name: str
    default: str
    parse: Callable[[str], Any]
    kind: str
    effect: str


def _whole(least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text):  # int() takes other digits too, and underscores
            raise ValueError(text)
        if len(text) > _MOST_DIGITS or not least <= int(text) <= most:
            raise OutOfRangeError(f"it must be a whole number from {least} to {most}")
        return int(text)

    return parse


class OutOfRangeError(ValueError):
    """A number outside the range of a property; the message names the range."""


_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_MOST_DIGITS = 20
_MOST_SHOWN = 60


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(text)
        return text

    return parse


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(text)
    return text == "true"


def _line(text: str) -> str:
    if len(text.splitlines()) > 1 or text != text.strip():  # it would not survive a round trip through its file
        raise ValueError(text)
    return text


def _address(text: str) -> str:
    if not re.match(r"/|s3://.", text):  # a relative path would be another place in another folder
        raise ValueError(text)
    return _line(text)


def _lasting(text: str) -> timedelta:
    duration = parse_duration(text)
    if not duration:
        raise ValueError(text)
    return duration


def _schema(text: str) -> Schema:
    from sleeper_nb.model.schema import Schema  # with Arrow, which the console's help does not wait for

    return Schema.from_json(text)


def _statistics(text: str) -> Any:
    from sleeper_nb.model.statistics import StatisticsColumns  # with Arrow

    return StatisticsColumns.parse(text)


def _or_nothing(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: parse(text) if text else None


STATE_STORE = "sleeper.table.statestore.classname"
STATE_STORES = ("S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore")
SAVEPOINT_INTERVAL = "savepoint.create-interval"
SAVEPOINTS_RETAINED, SAVEPOINT_TIME = "savepoint.num-retained.max", "savepoint.time-retained"
RETAINED_MIN, RETAINED_MAX = "snapshot.num-retained.min", "snapshot.num-retained.max"
SPLITTING_MIN_ROWS = "sleeper.table.partition.splitting.min.rows"
VECTOR_PERCENT = "sleeper.table.deletion.vector.percent.max"
VECTOR_LEAST_BYTES = "sleeper.table.deletion.vector.file.bytes.min"
CHANGE_ISOLATION = "sleeper.table.change.isolation"
IMPORT_MIN_LEAVES = "sleeper.table.bulk.import.min.leaf.partitions"
IMPORT_TASK_BYTES = "sleeper.table.bulk.import.task.memory.bytes"
IMPORT_MERGE = "sleeper.table.bulk.import.merge"
SPLITTING_THRESHOLD = "sleeper.table.partition.splitting.threshold"
STATISTICS = "sleeper.table.statistics.columns"
ICEBERG, ICEBERG_TIME = "sleeper.table.iceberg", "sleeper.table.iceberg.time-retained"
EXPECT, EXPECT_ACTION = "sleeper.table.expect", "sleeper.table.expect.action"
INGEST_STRATEGY = "sleeper.table.ingest.file.writing.strategy"
ONE_FILE_PER_LEAF, ONE_REFERENCE_PER_LEAF = "one_file_per_leaf", "one_reference_per_leaf"
DATA_PATH = "sleeper.table.data.path"
SPLITS_FILE = "sleeper.table.splits.file"
TABLE_SCHEMA = "sleeper.table.schema"
SPLITS_BASE64 = "sleeper.table.splits.base64.encoded"
CODECS = ("zstd", "snappy", "gzip", "lz4", "none", "uncompressed")
_COUNT = "whole number"
PROPERTIES: dict[str, Property] = {
    p.name: p
    for p in (
        Property(STATE_STORE, "S3StateStore", _one_of(*STATE_STORES),
                 ", ".join(STATE_STORES), "where the table's metadata is kept"),
        Property("sleeper.table.statestore.commit.max.attempts", "40", _whole(1), _COUNT,
                 "the most attempts of a commit that loses against other writers"),
        Property("sleeper.table.statestore.commit.first.retry.wait.ceiling.ms", "20", _whole(0), "milliseconds",
                 "the longest wait before the second attempt; it doubles with each attempt"),
        Property("sleeper.table.statestore.commit.max.retry.wait.ceiling.ms", "2000", _whole(0), "milliseconds",
                 "the longest wait before any attempt"),
        Property("sleeper.table.gc.delay.minutes", "15", _whole(0), "whole minutes",
                 "how long a file is kept after the last reference to it is gone"),
        Property("sleeper.table.compaction.strategy.class", "size-ratio", _one_of("size-ratio", "basic", "all"),
                 "size-ratio, basic or all", "which files compaction merges"),
        Property("sleeper.table.compaction.files.batch.size", "12", _whole(2), _COUNT,
                 "the most files in one compaction job"),
        Property("sleeper.table.compaction.strategy.sizeratio.ratio", "3", _whole(1), _COUNT,
                 "files are merged when the others together have this many times the rows of the largest"),
        Property("sleeper.table.compaction.strategy.sizeratio.max.concurrent.jobs.per.partition", "2147483647",
                 _whole(1), _COUNT, "the most jobs of the size-ratio strategy on one partition at a time"),
        Property("sleeper.table.compaction.job.creation.limit", "100000", _whole(1), _COUNT,
                 "the most compaction jobs of the table at a time"),
        Property(IMPORT_MIN_LEAVES, "256", _whole(1, 10_000), "whole number from 1 to 10000",
                 "a large bulk import into a table with one leaf first splits it, into at most so many"),
        Property(IMPORT_MERGE, "auto", _one_of("auto", "true", "false"), "auto, true or false",
                 "whether a bulk import merges its sorted runs; with false, each run is a file of each leaf, which "
                 "compaction merges: at most about 20 of a leaf and 10000 in all, else as true. auto is false where "
                 "Spark's tasks make few such files while maintenance runs as a service"),
        Property(IMPORT_TASK_BYTES, "268435456", _whole(2**24), "bytes, at least 16777216",
                 "about how much memory each task of a bulk import takes for rows; it sorts the others on disk"),
        Property(SPLITTING_MIN_ROWS, "2000000", _whole(1, 2**63 - 1), _COUNT,
                 "a bulk import makes no leaf for fewer rows"),
        Property(SPLITTING_THRESHOLD, "1000000000", _whole(2, 2**63 - 1), _COUNT,
                 "a leaf partition with this many rows is split"),
        Property("sleeper.table.parquet.rowgroup.rows.max", "100000", _whole(1), _COUNT,
                 "the most rows in a row group of a data file"),
        Property("sleeper.table.parquet.page.size", "131072", _whole(1024, 2**30), "bytes, at least 1024",
                 "the size of the pages of data files, including dictionaries; a lookup reads whole pages"),
        Property("sleeper.table.parquet.compression.codec", "zstd", _one_of(*CODECS), ", ".join(CODECS),
                 "the compression of data files"),
        Property("sleeper.table.parquet.writer.version", "v2", _one_of("v1", "v2"), "v1 or v2",
                 "the version of the data page format"),
        Property("sleeper.table.parquet.dictionary.encoding.rowkey.fields", "false", _truth, "true or false",
                 "whether row keys are dictionary-encoded"),
        Property("sleeper.table.parquet.dictionary.encoding.sortkey.fields", "true", _truth, "true or false",
                 "whether sort keys are dictionary-encoded while the dictionaries stay small"),
        Property("sleeper.table.parquet.dictionary.encoding.value.fields", "true", _truth, "true or false",
                 "whether values are dictionary-encoded while the dictionaries stay small"),
        Property(VECTOR_PERCENT, "25", _whole(0, 100), "0 to 100",
                 "the most rows of a data file, in percent, that a change deletes without writing the file again"),
        Property(VECTOR_LEAST_BYTES, "262144", _whole(0, 2**63 - 1), "bytes",
                 "a change of rows writes a smaller data file again, without the rows that it deletes"),
        Property(CHANGE_ISOLATION, "serializable", _one_of("serializable", "snapshot"), "serializable or snapshot",
                 "whether a DELETE or UPDATE is computed again when others added rows where it looked; with snapshot, "
                 "these rows stay as they are. Changes of the same rows are never lost with either"),
        Property(STATISTICS, "auto", _statistics, "auto, none, or column names separated by commas",
                 "the columns whose least and greatest values each file's metadata has, so that conditions prune "
                 "files; auto: dates, timestamps and sort keys"),
        Property(EXPECT, "", parse_expectations, "conditions such as dep_delay > -120; dest IS NOT NULL",
                 "what each row that a load or change adds should meet; existing rows are not looked at"),
        Property(EXPECT_ACTION, COUNT, _one_of(REFUSE, COUNT), f"{REFUSE} or {COUNT}",
                 "whether rows that break an expectation are refused, or counted in the history"),
        Property(SAVEPOINT_INTERVAL, "", _or_nothing(_lasting), f"{DURATION}, longer than 0; or empty",
                 "a load or maintenance creates a periodic savepoint when the last one is this old; never if empty"),
        Property(SAVEPOINTS_RETAINED, "2147483647", _whole(1), _COUNT,
                 "maintenance keeps at most this many periodic savepoints; savepoints made by hand are kept"),
        Property(SAVEPOINT_TIME, "", _or_nothing(parse_duration), f"{DURATION}; or empty",
                 "a periodic savepoint is deleted when it and the next one's version are older; never if empty"),
        Property("snapshot.time-retained", "7 d", parse_duration, DURATION,
                 "how far back the table can be read: a snapshot expires when its successor is older than this"),
        Property(RETAINED_MIN, "10", _whole(1), _COUNT, "this many of the newest snapshots are always kept"),
        Property(RETAINED_MAX, "2147483647", _whole(1), f"{_COUNT}, at least {RETAINED_MIN}",
                 "at most this many snapshots are kept"),
        Property(ICEBERG, "off", _one_of("off", "savepoints", "commits"), "off, savepoints or commits",
                 "which versions are published as Iceberg metadata, for other engines: none by itself, each savepoint, "
                 "or each savepoint and what each commit makes current"),
        Property(ICEBERG_TIME, "7 d", parse_duration, DURATION,
                 "how long other engines can read a published version after a newer one was published, of the newest "
                 "100 of such versions; those of savepoints stay"),
        Property(FILTERS, "", parse_filters, "ageOff(field,milliseconds), several separated by commas",
                 "which rows queries and compactions drop"),
        Property(ITERATOR, "", _line, "an entry point's name, or package.module:function",
                 "the Python function that changes rows in queries and compactions"),
        Property(ITERATOR_CONFIG, "", _line, "text of one line", "the configuration passed to the iterator"),
        Property(AGGREGATIONS, "", parse_aggregations, "such as sum(a),max(b), one for each value field, or last(*,c)",
                 "how rows of equal keys are combined in queries and compactions; "
                 "last(a,c), last_not_null(a,c) and first(a,c) take the value that has the greatest or least c"),
        Property(DELETE_COLUMN, "", _line, "the name of a boolean value field; or empty",
                 "a row in which it is true hides its key, if it is the last row of the key; compaction keeps it"),
        Property(INGEST_STRATEGY, ONE_FILE_PER_LEAF, _one_of(ONE_FILE_PER_LEAF, ONE_REFERENCE_PER_LEAF),
                 f"{ONE_FILE_PER_LEAF} or {ONE_REFERENCE_PER_LEAF}",
                 "whether an ingest writes one file for each leaf, or one file that several leaves refer to"),
        Property(SPLITS_FILE, "", str, "path or s3:// address",
                 "the file with the split points for a new table, one on each line; empty for none"),
        Property(DATA_PATH, "", _or_nothing(_address), "absolute folder, or s3:// address; or empty",
                 "the place of the folder with the table's data and metadata; in the instance's folder if empty"),
        Property(SPLITS_BASE64, "false", _truth, "true or false",
                 "whether strings in the file of split points are in base64"),
        Property(TABLE_SCHEMA, "", _or_nothing(_schema), "JSON of a schema, in one line",
                 "the table's schema; edit it here, then reinitialise the table, which deletes its contents"),
    )
}  # fmt: skip

TRANSACTION_ITEMS = "sleeper.statestore.dynamodb.transaction.max.items"
OWN_TABLES = "sleeper.statestore.dynamodb.tables"
SYNC = "sleeper.storage.sync"
LOCAL_FILES = "sleeper.sql.local.files"
METADATA_CACHE = "sleeper.metadata.cache.bytes"
INSTANCE_PROPERTIES: dict[str, Property] = {
    p.name: p
    for p in (
        Property(LOCAL_FILES, "true", _truth, "true or false",
                 "whether SQL may read files of this machine, such as 'data.csv'; SQL never writes files"),
        Property(METADATA_CACHE, "268435456", _whole(0), "whole number of bytes",
                 "the most bytes of metadata of buckets that are kept in this machine's cache folder; 0 for none"),
        Property(SYNC, "true", _truth, "true or false",
                 "whether a commit in a folder waits for the disk; if not, a power cut can lose the last commits"),
        Property(TRANSACTION_ITEMS, "100", _whole(5, 100), "whole number from 5 to 100",
                 "the most items in a DynamoDB transaction; a compaction job merges at most (items − 3) / 2 files"),
        Property(OWN_TABLES, "shared", _one_of("shared", "own"), "shared or own",
                 "whether new tables of DynamoDBStateStore share three DynamoDB tables, or each has three of its own"),
    )
}  # fmt: skip


TABLE_DEFAULTS = "sleeper.default.table."
_OF_ONE_TABLE = (TABLE_SCHEMA, DATA_PATH, EXPECT, *PROCESSING_PROPERTIES, SPLITS_FILE, SPLITS_BASE64)


def default_name(name: str) -> str:
    """Return the instance property that applies where a table does not set `name`; the names are Sleeper's."""
    return TABLE_DEFAULTS + name.removeprefix("sleeper.table.")


DEFAULTED: dict[str, str] = {default_name(name): name for name in PROPERTIES if name not in _OF_ONE_TABLE}
"""The instance properties that are defaults of tables, each with the table's property."""

Origin = Literal["table", "instance", "default"]
"""Where a value is set: by the table, by its instance, or nowhere."""


@dataclass(frozen=True, slots=True)
class _Properties:
    """The texts of the values that are set, by name; all others have their default, or that of `defaults`.

    `InvalidInput`, `NotFound` when a value is invalid, or a name unknown; the message names the nearest one.
    """

    texts: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)

    defined: ClassVar[Mapping[str, Property]]

    def __post_init__(self) -> None:
        for name, text in self.texts.items():
            self._check(name, text)

    @classmethod
    def _check(cls, name: str, text: str) -> None:
        if name not in cls.defined:
            raise NotFound.of("property", name, cls.defined)
        try:
            _parsed(cls.defined[name], text)
        except SleeperError as error:  # its message is more precise than `kind`
            raise type(error)(f"property {name}: {error.message}", hint=error.hint_parts) from error
        except ValueError as error:
            shown = repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}…"
            hint = str(error) if isinstance(error, OutOfRangeError) else f"it must be {cls.defined[name].kind}"
            raise InvalidInput(f"property {name} cannot be {shown}", hint=hint) from error

    def __getitem__(self, name: str) -> Any:
        known = self.defined[name]
        return _parsed(known, self.texts.get(name, self.defaults.get(name, known.default)))

    def values(self, *names: str) -> tuple[Any, ...]:
        return tuple([self[name] for name in names])

    def text(self, name: str) -> str:
        """Return the text of the value that applies: the one that is set, that of `defaults`, or the default."""
        return self.texts.get(name, self.defaults.get(name, self.defined[name].default))

    def to_text(self) -> str:
        """Return the content of a ``.properties`` file with the values that are set, ``name=value`` on each line."""
        return "".join(f"{line_of(name, text)}\n" for name, text in sorted(self.texts.items()))

    @classmethod
    def from_text(cls, content: str, source: str = "the properties") -> Self:
        """Read the content of a ``.properties`` file; errors name the line and the `source`, such as the file."""
        texts = {}
        for entry in entries(content, source):
            try:
                cls._check(entry.name, entry.value)
            except SleeperError as error:
                raise type(error)(f"line {entry.line} of {source}: {error.message}", hint=error.hint_parts) from error
            texts[entry.name] = entry.value
        return cls(texts)


@lru_cache(maxsize=1024)
def _parsed(known: Property, text: str) -> Any:
    """Return the value of a text, which is parsed once however many tables have it."""
    return known.parse(text)


@dataclass(frozen=True, slots=True)
class TableProperties(_Properties):
    """The values that a table sets; see `PROPERTIES`. Where it sets none, the `defaults` of its instance apply.

    `permissions` decide whether code that the properties name may run; they come from the session, never from the
    warehouse.
    """

    permissions: Permissions = field(default=NOTHING_ALLOWED, compare=False, repr=False)

    defined: ClassVar[Mapping[str, Property]] = PROPERTIES

    def check_together(self, source: str = "") -> None:
        """Raise `InvalidInput` when valid values contradict each other."""
        least, most = self[RETAINED_MIN], self[RETAINED_MAX]
        if most < least:
            place = f"{source}: " if source else ""
            raise InvalidInput(
                f"{place}property {RETAINED_MAX} is {most}, less than {RETAINED_MIN}, which is {least}",
                hint=f"set {RETAINED_MIN} to {most} or less, or {RETAINED_MAX} to {least} or more",
            )

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        return tuple(Expectation(each, self[EXPECT_ACTION] == REFUSE) for each in self[EXPECT])

    @property
    def processing(self) -> str:
        """The settings of row processing as lines of a properties file; each version of a table records them."""
        names = (name for name in PROCESSING_PROPERTIES if self.texts.get(name))
        return TableProperties({name: self.texts[name] for name in names}).to_text()

    def processed_as(self, recorded: str | None) -> TableProperties:
        """Return the properties with the `processing` that a version recorded; None where it recorded nothing."""
        if recorded is None:
            return self
        others = {name: text for name, text in self.texts.items() if name not in PROCESSING_PROPERTIES}
        texts = TableProperties.from_text(recorded, "the recorded processing").texts
        return replace(self, texts={**others, **texts})

    def origin(self, name: str) -> Origin:
        return "table" if name in self.texts else "instance" if name in self.defaults else "default"


ALL_DEFAULTS = TableProperties({})


class InstanceProperties(_Properties):
    """The values that an instance sets; see `INSTANCE_PROPERTIES`, and `DEFAULTED` for the defaults of tables."""

    __slots__ = ()
    defined = INSTANCE_PROPERTIES | {
        name: replace(PROPERTIES[of], name=name, effect=f"default of {of}") for name, of in DEFAULTED.items()
    }

    @property
    def table_defaults(self) -> dict[str, str]:
        """The values that tables have where they set none, by the names of table properties."""
        return {DEFAULTED[name]: text for name, text in self.texts.items() if name in DEFAULTED}


def schema_line(schema: Schema) -> str:
    """Return a schema as the value of ``sleeper.table.schema``: JSON in one line."""
    return json.dumps(json.loads(schema.to_json()))
