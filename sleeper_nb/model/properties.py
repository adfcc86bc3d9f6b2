"""The properties of tables and instances: names, types, defaults and effects; and the values that somebody set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.config_text import entries, line_of
from sleeper_nb.model.permissions import NOTHING_ALLOWED, Permissions
from sleeper_nb.model.processing import (
    AGGREGATIONS,
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
    """One property: `parse` turns its text into a value and raises ValueError for a text that is none."""

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
            raise OutOfRangeError(f"it is a whole number from {least} to {most}")
        return int(text)

    return parse


class OutOfRangeError(ValueError):
    """A number that a property cannot be; the message says which it can."""


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
    return _one_of("true", "false")(text) == "true"


def _line(text: str) -> str:
    if len(text.splitlines()) > 1 or text != text.strip():  # it could not be read from its file again
        raise ValueError(text)
    return text


def _address(text: str) -> str:
    if not re.match(r"/|s3://.", text):  # what is relative would be another place in another folder
        raise ValueError(text)
    return _line(text)


def _lasting(text: str) -> timedelta:
    duration = parse_duration(text)
    if not duration:
        raise ValueError(text)
    return duration


def _schema(text: str) -> Schema:
    from sleeper_nb.model.schema import (
        Schema,  # with Arrow, which the console's help does not wait for
    )

    return Schema.from_json(text)


def _or_nothing(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: parse(text) if text else None


STATE_STORE = "sleeper.table.statestore.classname"
STATE_STORES = ("S3StateStore", "TransactionLogStateStore", "DynamoDBStateStore")
SAVEPOINT_INTERVAL = "savepoint.create-interval"
SAVEPOINTS_RETAINED, SAVEPOINT_TIME = "savepoint.num-retained.max", "savepoint.time-retained"
RETAINED_MIN, RETAINED_MAX = "snapshot.num-retained.min", "snapshot.num-retained.max"
SPLITTING_THRESHOLD = "sleeper.table.partition.splitting.threshold"
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
                 "how often a commit that lost against another writer is tried in all"),
        Property("sleeper.table.statestore.commit.first.retry.wait.ceiling.ms", "20", _whole(0), "milliseconds",
                 "the longest wait before the second try; it doubles with each"),
        Property("sleeper.table.statestore.commit.max.retry.wait.ceiling.ms", "2000", _whole(0), "milliseconds",
                 "the longest wait before any try"),
        Property("sleeper.table.gc.delay.minutes", "15", _whole(0), "whole minutes",
                 "how long a file stays after nothing refers to it"),
        Property("sleeper.table.compaction.strategy.class", "size-ratio", _one_of("size-ratio", "basic", "all"),
                 "size-ratio, basic or all", "which files compaction merges"),
        Property("sleeper.table.compaction.files.batch.size", "12", _whole(2), _COUNT, "files of a compaction job"),
        Property("sleeper.table.compaction.strategy.sizeratio.ratio", "3", _whole(1), _COUNT,
                 "files merge when all but the largest have so many times its rows"),
        Property("sleeper.table.compaction.strategy.sizeratio.max.concurrent.jobs.per.partition", "2147483647",
                 _whole(1), _COUNT, "jobs of the size-ratio strategy that merge files of one partition at a time"),
        Property("sleeper.table.compaction.job.creation.limit", "100000", _whole(1), _COUNT,
                 "compaction jobs of the table that are under way at a time"),
        Property(SPLITTING_THRESHOLD, "1000000000", _whole(2, 2**63 - 1), _COUNT,
                 "a leaf partition with so many rows is split"),
        Property("sleeper.table.parquet.rowgroup.rows.max", "100000", _whole(1), _COUNT,
                 "rows of a row group of a data file, at most"),
        Property("sleeper.table.parquet.page.size", "131072", _whole(1024, 2**30), "bytes, 1024 and more",
                 "how large a page of a data file grows, of its dictionaries too; a lookup reads whole pages"),
        Property("sleeper.table.parquet.compression.codec", "zstd", _one_of(*CODECS), ", ".join(CODECS),
                 "how data files are compressed"),
        Property("sleeper.table.parquet.writer.version", "v2", _one_of("v1", "v2"), "v1 or v2",
                 "the version of the pages of data files"),
        Property("sleeper.table.parquet.dictionary.encoding.rowkey.fields", "false", _truth, "true or false",
                 "whether row keys are written with dictionaries"),
        Property("sleeper.table.parquet.dictionary.encoding.sortkey.fields", "true", _truth, "true or false",
                 "whether sort keys are written with dictionaries, where these stay small"),
        Property("sleeper.table.parquet.dictionary.encoding.value.fields", "true", _truth, "true or false",
                 "whether values are written with dictionaries, where these stay small"),
        Property(SAVEPOINT_INTERVAL, "", _or_nothing(_lasting), f"{DURATION}, longer than 0; or nothing",
                 "how old the last periodic savepoint becomes before a load, or maintenance, makes another"),
        Property(SAVEPOINTS_RETAINED, "2147483647", _whole(1), _COUNT,
                 "maintenance leaves no more periodic savepoints than this; those made by hand stay"),
        Property(SAVEPOINT_TIME, "", _or_nothing(parse_duration), f"{DURATION}; or nothing",
                 "maintenance deletes a periodic savepoint when it and what the next saves are older; never if empty"),
        Property("snapshot.time-retained", "7 d", parse_duration, DURATION,
                 "any moment that is no older can be read: a snapshot expires when its successor is older"),
        Property(RETAINED_MIN, "10", _whole(1), _COUNT, "so many of the newest snapshots always stay"),
        Property(RETAINED_MAX, "2147483647", _whole(1), f"{_COUNT}, no less than {RETAINED_MIN}",
                 "never more snapshots than this stay"),
        Property(FILTERS, "", parse_filters, "ageOff(field,milliseconds), several separated by commas",
                 "rows that queries and compactions drop"),
        Property(ITERATOR, "", _line, "an entry point's name, or package.module:function",
                 "the Python function that changes rows in queries and compactions"),
        Property(ITERATOR_CONFIG, "", _line, "text of one line", "what the iterator is told"),
        Property(AGGREGATIONS, "", parse_aggregations, "sum(a),max(b), one of each value field",
                 "how rows of equal keys are combined in queries and compactions"),
        Property(INGEST_STRATEGY, ONE_FILE_PER_LEAF, _one_of(ONE_FILE_PER_LEAF, ONE_REFERENCE_PER_LEAF),
                 f"{ONE_FILE_PER_LEAF} or {ONE_REFERENCE_PER_LEAF}",
                 "whether an ingest writes a file for each leaf, or one file that several leaves refer to"),
        Property(SPLITS_FILE, "", str, "path or s3:// address",
                 "the file of the split points that the table was created with, one a line; empty for none"),
        Property(DATA_PATH, "", _or_nothing(_address), "absolute folder, or s3:// address; or nothing",
                 "where a folder of its own has the table's data and metadata; in its instance's if nothing"),
        Property(SPLITS_BASE64, "false", _truth, "true or false", "whether strings in that file are in base64"),
        Property(TABLE_SCHEMA, "", _or_nothing(_schema), "JSON of a schema, in one line",
                 "the table's schema; edit it here, then reinitialise the table, which deletes its contents"),
    )
}  # fmt: skip

TRANSACTION_ITEMS = "sleeper.statestore.dynamodb.transaction.max.items"
OWN_TABLES = "sleeper.statestore.dynamodb.tables"
SYNC = "sleeper.storage.sync"
LOCAL_FILES = "sleeper.sql.local.files"
INSTANCE_PROPERTIES: dict[str, Property] = {
    p.name: p
    for p in (
        Property(LOCAL_FILES, "true", _truth, "true or false",
                 "whether SQL may read files of this machine, such as 'data.csv'; it never writes any"),
        Property(SYNC, "true", _truth, "true or false",
                 "whether a commit in a folder waits for the disk; if not, a power cut can cost the last commits"),
        Property(TRANSACTION_ITEMS, "100", _whole(5, 100), "whole number from 5 to 100",
                 "items of a DynamoDB transaction; (items − 3) / 2 is the most files that one compaction job merges"),
        Property(OWN_TABLES, "shared", _one_of("shared", "own"), "shared or own",
                 "whether new tables of DynamoDBStateStore share three DynamoDB tables or have three each"),
    )
}  # fmt: skip


TABLE_DEFAULTS = "sleeper.default.table."
_OF_ONE_TABLE = (TABLE_SCHEMA, DATA_PATH, FILTERS, ITERATOR, ITERATOR_CONFIG, AGGREGATIONS, SPLITS_FILE, SPLITS_BASE64)


def default_name(name: str) -> str:
    """Return the property of an instance that counts where a table does not set `name`: Sleeper's names."""
    return TABLE_DEFAULTS + name.removeprefix("sleeper.table.")


DEFAULTED: dict[str, str] = {default_name(name): name for name in PROPERTIES if name not in _OF_ONE_TABLE}
"""The properties of an instance that are defaults of its tables, each with the table's property."""

Origin = Literal["table", "instance", "default"]
"""Who set a value: the table, its instance, or nobody."""


@dataclass(frozen=True, slots=True)
class _Properties:
    """The values that were set; all others have their default.

    Parameters
    ----------
    texts
        The texts of the values, by name.
    parsed
        Values by name and text; a text that is not among them is parsed once, here.

    Raises
    ------
    InvalidInput, NotFound
        When a value is ill-typed, or a name unknown: the nearest one is named.
    """

    texts: Mapping[str, str]
    parsed: Mapping[tuple[str, str], Any] = field(default_factory=dict, kw_only=True, compare=False, repr=False)

    defined: ClassVar[Mapping[str, Property]]

    def __post_init__(self) -> None:
        parsed = {}
        for each in self.texts.items():
            parsed[each] = self.parsed[each] if each in self.parsed else self._value(*each)
        object.__setattr__(self, "parsed", parsed)

    @classmethod
    def _value(cls, name: str, text: str) -> Any:
        if name not in cls.defined:
            raise NotFound.of("property", name, cls.defined)
        try:
            return cls.defined[name].parse(text)
        except SleeperError as error:  # it says more than its kind does
            raise type(error)(f"property {name}: {error.message}", hint=error.hint_parts) from error
        except ValueError as error:
            shown = repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}…"
            hint = str(error) if isinstance(error, OutOfRangeError) else f"it is {cls.defined[name].kind}"
            raise InvalidInput(f"property {name} cannot be {shown}", hint=hint) from error

    def __getitem__(self, name: str) -> Any:
        text = self.text(name)
        key = name, text
        return self.parsed[key] if key in self.parsed else self.defined[name].parse(text)

    def text(self, name: str) -> str:
        """Return the text of the value that counts."""
        return self.texts.get(name, self.defined[name].default)

    def to_text(self) -> str:
        """Return the content of a ``.properties`` file: what is set, each line ``name=value``."""
        return "".join(f"{line_of(name, text)}\n" for name, text in sorted(self.texts.items()))

    @classmethod
    def from_text(cls, content: str, source: str = "the properties") -> Self:
        """Read the content of a ``.properties`` file (`sleeper_nb.model.properties_text`).

        Errors name the line and the `source`, a file for instance.
        """
        texts, parsed = {}, {}
        for entry in entries(content, source):
            try:
                parsed[entry.name, entry.value] = cls._value(entry.name, entry.value)
            except SleeperError as error:
                raise type(error)(f"line {entry.line} of {source}: {error.message}", hint=error.hint_parts) from error
            texts[entry.name] = entry.value
        return cls(texts, parsed=parsed)


@dataclass(frozen=True, slots=True)
class TableProperties(_Properties):
    """The values that a table sets; see `PROPERTIES`. Where it sets none, the `defaults` of its instance count.

    `permissions` say whether the code that they name may run; they are the session's, never the warehouse's.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    permissions: Permissions = field(default=NOTHING_ALLOWED, compare=False, repr=False)

    defined: ClassVar[Mapping[str, Property]] = PROPERTIES

    def text(self, name: str) -> str:
        """Return the text of the value that counts: the table's, its instance's, or the default."""
        return self.texts.get(name, self.defaults.get(name, self.defined[name].default))

    def check_together(self, source: str = "") -> None:
        """Raise `InvalidInput` when values that are right by themselves contradict each other.

        Parameters
        ----------
        source
            The file that they are in, for the message.
        """
        least, most = self[RETAINED_MIN], self[RETAINED_MAX]
        if most < least:
            raise InvalidInput(
                f"{f'{source}: ' * bool(source)}property {RETAINED_MAX} is {most}, less than {RETAINED_MIN}, "
                f"which is {least}",
                hint=f"set {RETAINED_MIN} to {most} or less, or {RETAINED_MAX} to {least} or more",
            )

    @property
    def processing(self) -> str:
        """What is set of how rows are processed, as lines of a properties file; a version of a table records it."""
        names = (name for name in PROCESSING_PROPERTIES if self.texts.get(name))
        return TableProperties({name: self.texts[name] for name in names}).to_text()

    def processed_as(self, recorded: str | None) -> TableProperties:
        """Return the properties with the processing that a version records (`processing`); None records nothing."""
        if recorded is None:
            return self
        others = {name: text for name, text in self.texts.items() if name not in PROCESSING_PROPERTIES}
        texts = TableProperties.from_text(recorded, "the recorded processing").texts
        return replace(self, texts={**others, **texts})

    def origin(self, name: str) -> Origin:
        """Return who set the value that counts."""
        return "table" if name in self.texts else "instance" if name in self.defaults else "default"


class InstanceProperties(_Properties):
    """The values that an instance sets; see `INSTANCE_PROPERTIES`, and `DEFAULTED` for those of its tables."""

    __slots__ = ()
    defined = INSTANCE_PROPERTIES | {
        name: replace(PROPERTIES[of], name=name, effect=f"default of {of}") for name, of in DEFAULTED.items()
    }

    @property
    def table_defaults(self) -> dict[str, str]:
        """What tables have where they set nothing, by the names of their properties."""
        return {DEFAULTED[name]: text for name, text in self.texts.items() if name in DEFAULTED}


def schema_line(schema: Schema) -> str:
    """Return a schema as the value of ``sleeper.table.schema``: its JSON in one line."""
    return json.dumps(json.loads(schema.to_json()))
