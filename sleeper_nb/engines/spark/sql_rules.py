"""What SQL on Spark may name: the settings that it may change, and the formats, options and paths of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from sleeper_nb.engines.spark.gateway import jvm_of, session_state
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.storage.local_files import check_outside, no_local_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.sql.statement import Statement

CHANGEABLE: Final = frozenset(
    {
        "spark.sql.shuffle.partitions",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.broadcastTimeout",
        "spark.sql.cbo.enabled",
        "spark.sql.cbo.joinReorder.enabled",
        "spark.sql.codegen.wholeStage",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.files.maxPartitionNum",
        "spark.sql.files.minPartitionNum",
        "spark.sql.files.openCostInBytes",
        "spark.sql.inMemoryColumnarStorage.batchSize",
        "spark.sql.inMemoryColumnarStorage.compressed",
        "spark.sql.join.preferSortMergeJoin",
        "spark.sql.adaptive.enabled",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes",
        "spark.sql.adaptive.autoBroadcastJoinThreshold",
        "spark.sql.adaptive.coalescePartitions.enabled",
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst",
        "spark.sql.adaptive.forceOptimizeSkewedJoin",
        "spark.sql.adaptive.localShuffleReader.enabled",
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold",
        "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled",
        "spark.sql.adaptive.rebalancePartitionsSmallPartitionFactor",
        "spark.sql.adaptive.skewJoin.enabled",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes",
    }
)
"""The settings that a statement may change: those that change how a query runs, and not what it answers.

Not among them: names of classes (a catalog, a cost evaluator), what makes a damaged file answer fewer rows
(``spark.sql.files.ignoreCorruptFiles``), and what gives a query another meaning (``spark.sql.session.timeZone``,
``spark.sql.ansi.enabled``, ``spark.sql.caseSensitive``)."""

_TIME_ZONE: Final = "spark.sql.session.timeZone"


_ONLY_PYTHON: Final = frozenset({
    "arrow_udf", "arrow_udtf", "asc", "asc_nulls_first", "asc_nulls_last", "broadcast", "call_function", "call_udf",
    "col", "column", "desc", "desc_nulls_first", "desc_nulls_last", "expr", "lit", "pandas_udf", "udf", "udtf",
    "unwrap_udt",
})  # fmt: skip
"""Functions of PySpark that SQL does not have."""


def function_names() -> frozenset[str]:
    """Return the names of Spark's functions, as far as PySpark lists them; Spark need not run for that."""
    from pyspark.sql import functions

    return frozenset(functions.__all__) - _ONLY_PYTHON


def check_change(key: str | None) -> None:
    """Make sure that SQL may change or reset a setting.

    Parameters
    ----------
    key
        The setting; None for all of them.

    Raises
    ------
    InvalidInput
        Naming the setting and where it can be set.
    """
    if key is None:
        raise InvalidInput("SQL cannot reset all settings", hint="name one: RESET spark.sql.shuffle.partitions")
    if key in CHANGEABLE:
        return
    if not key.lower().startswith("spark."):  # the statement may have been meant for DuckDB, too
        hint = "statements can set only what begins with spark., such as SET spark.sql.shuffle.partitions = 8"
        raise InvalidInput(f"SQL cannot change setting {key!r}", hint=hint)
    hint = f"start with connect(…, spark_config={{{key!r}: …}}), or set it on a Spark session of your own"
    if key == _TIME_ZONE:
        hint = f"write from_utc_timestamp(COLUMN, 'Europe/London'), or {hint}"
    raise InvalidInput(f"SQL cannot change setting {key!r}", hint=hint)


_NO_SETTINGS: Final = frozenset({"CATALOG", "ROLE", "TIME", "VAR", "VARIABLE"})
"""What ``SET`` of Spark can set besides settings."""


def refuse_before_start(statement: Statement) -> None:
    """Raise for a statement that Spark would have to be started for only to refuse it, as its first words show.

    What it lets pass is judged by Spark's parser (`sleeper_nb.engines.spark.spark_reads`).

    Raises
    ------
    InvalidInput
        It changes a setting that SQL may not change, or is only DuckDB's.
    """
    words, tokens = statement.words(), statement.tokens
    verb = words[0] if words else ""
    if verb == "SUMMARIZE":
        hint = ("name that engine: ", Action("--engine duckdb", 'engine="duckdb"'))
        raise InvalidInput("SUMMARIZE is DuckDB's SQL, and Spark runs the statement", hint=hint)
    if verb in {"SET", "RESET"} and not (words[1:2] and words[1] in _NO_SETTINGS):
        last = next((at for at, token in enumerate(tokens) if token.text in {"=", ";"}), len(tokens))
        key = statement.text[tokens[0].end : tokens[last - 1].end].strip().strip("`")
        if verb == "RESET" or any(token.text == "=" for token in tokens[last : last + 1]):
            check_change(key or None)


FORMATS: Final = ("avro", "binaryFile", "csv", "json", "orc", "parquet", "text", "xml")
_FORMATS: Final = frozenset(map(str.lower, FORMATS))

_OPTIONS: Final = frozenset(
    """
    path header sep delimiter quote escape charToEscapeQuoteEscaping comment encoding charset lineSep multiLine
    wholeText inferSchema samplingRatio enforceSchema mergeSchema mode columnNameOfCorruptRecord
    maxColumns maxCharsPerColumn
    ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace ignoreSurroundingSpaces unescapedQuoteHandling
    nullValue nanValue positiveInf negativeInf emptyValue locale timeZone preferDate
    dateFormat timestampFormat timestampNTZFormat enableDateTimeParsingFallback datetimeRebaseMode int96RebaseMode
    primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes
    allowNumericLeadingZeros allowNonNumericNumbers allowBackslashEscapingAnyCharacter allowUnquotedControlChars
    dropFieldIfAllNull rowTag attributePrefix valueTag excludeAttribute treatEmptyValuesAsNulls ignoreNamespace
    pathGlobFilter recursiveFileLookup modifiedBefore modifiedAfter
    """.lower().split()
)
"""Options that say how a file is written, or which files are meant. Not among them: those that skip files which cannot
be read, and those that name another file."""


def is_format(name: str) -> bool:
    return name.lower() in _FORMATS


def check_format(name: str) -> None:
    """Raise unless SQL may read files of a format; other formats may connect to a database, or run a class."""
    if not is_format(name):
        raise InvalidInput(f"SQL cannot read files of format {name!r}", hint=f"formats are {', '.join(FORMATS)}")


_NEED_MODE: Final = frozenset({"csv", "json", "xml"})
"""Formats of which Spark makes NULL of what it cannot read, and drops values beyond the columns, unless it is told."""


def check_mode(form: str, path: str, names: Iterable[str]) -> None:
    """Raise when nothing says what becomes of rows of a text file that do not fit.

    Parameters
    ----------
    form, path
        The format of the file, and its path, for the hint.
    """
    if form.lower() not in _NEED_MODE or "mode" in map(str.lower, names):
        return
    on_duckdb = () if form.lower() == "xml" else (f"write FROM '{path}' for DuckDB, which reads it as loads do, or ",)
    raise InvalidInput(
        f"Spark makes NULL of what it cannot read in {path!r}, a {form} file",
        hint=(*on_duckdb, "say what becomes of it, with the option mode = 'FAILFAST'"),
    )


def check_options(session: SparkSession, options: Iterable[tuple[str, str]], *, local_files: bool) -> None:
    """Raise when an option does more than say how a file is written, or SQL may not read its path."""
    for name, value in options:
        if name.lower() not in _OPTIONS:
            hint = "read the file in Python: session.spark_session.read.option(…)"
            raise InvalidInput(f"SQL does not accept the file option {name!r}", hint=hint)
        if name.lower() == "path":
            check_path(session, value, local_files=local_files)


def check_path(session: SparkSession, path: str, *, local_files: bool) -> None:
    """Make sure that SQL may read all files that a path, folder or pattern stands for, as Spark finds them.

    Raises
    ------
    InvalidInput
        SQL may read no files here, the path is not on this machine, or a file is not the user's data.
    """
    if not local_files:
        raise no_local_files(path)
    for found in _matching(session, path):
        for each in _below(found):
            check_outside(each)


def _matching(session: SparkSession, path: str) -> Iterator[str]:
    """Yield the local paths that Spark reads for a path: Spark has its own patterns and its own working folder."""
    from py4j.protocol import Py4JJavaError

    jvm, conf = jvm_of(session), session_state(session).newHadoopConf()
    try:
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    except Py4JJavaError as error:
        raise InvalidInput(f"no path {path!r}", hint="write one: csv.`data.csv`") from error
    scheme = hadoop_path.toUri().getScheme() or jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).getScheme()
    if scheme != "file":
        hint = "read it in Python: session.spark_session.read"
        raise InvalidInput(f"SQL reads only files of this machine, not {path!r}", hint=hint)
    matches = hadoop_path.getFileSystem(conf).globStatus(hadoop_path)
    yield from (each.getPath().toUri().getPath() for each in matches or ())


def _below(path: str) -> Iterator[str]:
    """Yield a path and, for a folder, all folders and links below it, which Spark reads too."""
    yield path
    waiting, seen = [path], set()
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(folder)
        if real in seen or not os.path.isdir(real):  # noqa: PTH112 - paths of Spark are text
            continue
        seen.add(real)
        for entry in _entries(real):
            is_folder = entry.is_dir()
            if is_folder or entry.is_symlink():
                yield entry.path
            if is_folder:
                waiting.append(entry.path)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # Spark cannot read it either, and reports it
        return []
