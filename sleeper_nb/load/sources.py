"""What a user passes to ingest as columns that fit the table's schema: files, addresses of the web, rows in memory.

`find_sources` sorts the user's argument into files and data in memory without reading any, but downloads files of the
web; `read_source` and `read_sources` read them and compare them with the schema. NaN in a pandas column is NULL, as
pandas means it, unless the column is masked.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import math
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial, reduce
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from sleeper_nb.errors import (
    FREE_SPACE,
    UNCHANGED,
    DiskFull,
    InvalidInput,
    NetworkError,
    NotFound,
    StorageError,
    first_line,
)
from sleeper_nb.load.casts import BAD_VALUE
from sleeper_nb.load.conform import (
    BadValue,
    Conformed,
    Difference,
    RawColumns,
    compare,
    converted,
    extra_notes,
    no_place,
    notes_of_sources,
    raise_first,
)
from sleeper_nb.load.file_formats import header_names, read_file
from sleeper_nb.load.json_files import columns_of_objects, json_names, untyped_column
from sleeper_nb.load.lake_tables import LakeTable, is_lake_address, is_lake_object, open_lake_table, table_of_object
from sleeper_nb.load.load_options import AS_IT_IS, EXACT, LoadOptions, Matching
from sleeper_nb.load.python_values import ValueRules, from_python
from sleeper_nb.load.row_checks import JudgedRows, OpenedChecks, RowCheck, no_rows_judged, opened_checks
from sleeper_nb.load.source_files import SOURCE_ENDINGS, SPREADSHEET_ENDINGS, SourceFile, find_files, with_kind
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.model.schema import Field, FieldType, Schema
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.report import class_name, counted
from sleeper_nb.storage.filesystem import Storage


def is_pandas(data: Any) -> bool:
    return _is_a(data, "pandas", "DataFrame")


def is_spark_frame(data: Any) -> bool:
    return _is_a(data, "pyspark", "DataFrame")


def is_rows(data: Any) -> bool:
    return isinstance(data, list) and all(isinstance(row, dict) for row in data)


def is_table(data: Any) -> bool:
    """Return whether data has rows and named columns, and can be read more than once."""
    if isinstance(data, type):
        return False
    if is_pandas(data) or is_spark_frame(data) or isinstance(data, pa.RecordBatch):
        return True
    is_lazy = _library(data) in {"polars", "pyarrow"} and (hasattr(data, "collect") or hasattr(data, "to_table"))
    return is_lazy or (_has_stream(data) and not isinstance(data, pa.RecordBatchReader | pa.ChunkedArray | pa.Array))


def names_of(data: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of data, without reading rows; None if it does not say them."""
    if hasattr(data, "collect_schema"):  # lazy Polars, whose `columns` warns
        return tuple(data.collect_schema().names())
    if is_pandas(data) or is_spark_frame(data):
        return tuple(map(str, data.columns))
    schema = getattr(data, "projected_schema", None) or getattr(data, "schema", None)
    if isinstance(schema, pa.Schema):
        return tuple(schema.names)
    columns = getattr(data, "columns", None)
    return tuple(map(str, columns)) if isinstance(columns, list) else None


def with_index(data: Any) -> Any:
    """Return a pandas table with a named index, and each level of a MultiIndex, as columns, none of them sparse.

    Other data stays as it is.

    As in `reset_index`, they come first, and a level without a name is ``level_0``; but a level that is a column too
    is one column. An index without a name numbers the rows, and stays what it is.

    Raises `InvalidInput` when a level has other values than the column of its name.
    """
    if not is_pandas(data):
        return data
    data = _dense(data)
    if data.index.nlevels == 1 and data.index.name is None:
        return data
    table = data.copy(deep=False)
    table.columns = list(map(str, data.columns))
    names = [None if name is None else str(name) for name in data.index.names]
    for number in reversed(range(data.index.nlevels)):
        name, level = names[number] or f"level_{number}", data.index.get_level_values(number)
        if name not in table.columns:
            table.insert(0, name, level)
            continue
        column = table.iloc[:, list(table.columns).index(name)]
        if not column.set_axis(column.array).index.equals(level):
            problem = f"{name!r} is a column of the data frame and a level of its index, with other values"
            if name in names[number + 1 :]:
                problem = f"two levels of the index of the data frame are called {name!r}"
            renamed = [*names[:number], f"{name}_2", *names[number + 1 :]]
            new = renamed if len(renamed) > 1 else renamed[0]
            raise InvalidInput(problem, hint=f"rename one, such as x.rename_axis({new!r})")
    return table.set_axis(range(len(table)), axis=0)


def _dense(data: Any) -> Any:
    """Return a pandas table whose sparse columns, which Arrow does not read, have all of their values."""
    sparse = [i for i, kind in enumerate(data.dtypes) if type(kind).__name__ == "SparseDtype"]
    table = data.copy(deep=False) if sparse else data
    for i in sparse:
        table.isetitem(i, data.iloc[:, i].sparse.to_dense())
    return table


def index_note(data: Any) -> tuple[str, ...]:
    """Return a note on the index of a pandas table that is not loaded, unless it only numbers rows."""
    is_left = is_pandas(data) and data.index.name is None and getattr(data.index.dtype, "kind", "O") not in "iu"
    is_left = is_left and len(data.index) > 0
    return ("the index has no name and is not loaded: x.rename_axis('NAME') makes it a column",) if is_left else ()


def arrow_of(data: Any) -> pa.Table:
    """Return the rows of a Polars, Arrow or DuckDB table, or of anything with an Arrow C stream.

    Raises `InvalidInput` when the data has none, or Arrow lacks the type of a column.
    """
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if _library(data) == "polars":
        data = _computed(data.collect) if hasattr(data, "collect") else data
        objects = [name for name, kind in getattr(data, "schema", {}).items() if str(kind) == "Object"]
        if objects:
            raise InvalidInput(f"column {objects[0]!r} has Python objects", hint="convert the column, or leave it out")
    if _library(data) == "pyarrow" and hasattr(data, "to_table"):  # a dataset, or a scan of one
        return _computed(data.to_table)
    if _has_stream(data):
        try:
            return pa.table(data)
        except pa.ArrowException as error:
            hint = "convert columns whose type Arrow lacks, such as Polars Int128 to Int64 or Decimal"
            raise InvalidInput(f"the data cannot be converted to Arrow: {first_line(error)}", hint=hint) from error
    hint = "pass a pandas, Polars, Arrow, DuckDB or Spark table, a list of dictionaries, or a path"
    if hasattr(data, "to_frame"):
        hint = "make a table of it, such as x.to_frame()"
    elif isinstance(data, Mapping):
        hint = "make a table of it, such as pandas.DataFrame(x); or pass a list of dictionaries, one for each row"
    raise InvalidInput(f"cannot ingest a value of type {class_name(data)}", hint=hint)


def _computed(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except Exception as error:  # each library has its own errors
        hint = "correct how it is computed; its own collect() or to_table() shows the whole error"
        raise InvalidInput(f"the data cannot be computed: {first_line(error)}", hint=hint) from error


def _is_a(data: Any, library: str, name: str) -> bool:
    return (library, name) in [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__]


_LIBRARIES: Final = frozenset({"pandas", "polars", "pyarrow"})


def _library(data: Any) -> str:
    """Return which of these libraries a class of the data is from, its own or one that it extends; or ""."""
    for kind in type(data).__mro__:
        home = kind.__module__.partition(".")[0]
        if home in _LIBRARIES:
            return home
    return ""


def _has_stream(data: Any) -> bool:
    is_column = _library(data) in {"pandas", "polars"} and not hasattr(data, "columns")
    return hasattr(data, "__arrow_c_stream__") and not is_column


logger = logging.getLogger(__name__)

MOST_BYTES = 16 << 30
"""Larger files are not downloaded: a user wants to keep them."""
_BLOCK_BYTES = 1 << 20
_SECONDS = 60
"""How long a server may take to answer, and to send each next part."""


def is_web_address(source: object) -> bool:
    return isinstance(source, str) and re.match(r"https?://", source, re.IGNORECASE) is not None


@contextlib.contextmanager
def downloads(progress: Progress = SILENT, most_bytes: int = MOST_BYTES) -> Iterator[Downloads]:
    """Yield what downloads files; they are deleted at the end."""
    with contextlib.ExitStack() as stack:
        yield Downloads(stack, progress, most_bytes)


@dataclass
class Downloads:
    """Downloads files of the web to a folder of its own, made for the first of them."""

    stack: contextlib.ExitStack
    progress: Progress = SILENT
    most_bytes: int = MOST_BYTES
    _folder: list[Path] = field(default_factory=list)

    def file(self, address: str) -> SourceFile:
        """Download the file at an address.

        Raises `InvalidInput` when the address is not of a data file, or the file is too large; `NotFound` when the
        server has no such file; `NetworkError` when the server does not answer, refuses, or stops early.
        """
        shown = without_secrets(address)
        try:
            request = urllib.request.Request(  # noqa: S310 - http and https only
                address, headers={"User-Agent": "sleeper_nb", "Accept-Encoding": "identity"}
            )
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                return self._saved(answer, shown)
        except urllib.error.HTTPError as error:
            raise _refused(error, shown) from error
        except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            hint = "check the address, the network and the proxy (HTTPS_PROXY); or download the file, and give its path"
            raise NetworkError(f"cannot download {shown}: {reason}", hint=hint) from error
        except ValueError as error:
            raise InvalidInput(
                f"{shown} is not a valid address: {error}", hint="write https://host/file.csv"
            ) from error

    def _saved(self, answer: Any, shown: str) -> SourceFile:
        name = _file_name(answer, shown)
        length = int(answer.headers.get("Content-Length") or 0)
        if not self._folder:
            self._folder.append(Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="sleeper-"))))
        folder = Path(tempfile.mkdtemp(dir=self._folder[0]))
        self._check_size(length, shown, folder)
        path = folder / name
        size = self._copied(answer, path, shown, length)
        if length and size < length:
            hint = "run it again; or download the file, and give its path"
            raise NetworkError(f"{shown} ended after {size:,} of {length:,} bytes", hint=hint)
        logger.info("downloaded %s: %d bytes", shown, size)
        return SourceFile(Storage(folder), name, size, web=shown)

    def _check_size(self, size: int, shown: str, folder: Path) -> None:
        if size > self.most_bytes:
            hint = "download it yourself, and give its path"
            raise InvalidInput(f"{shown} has {_text(size)}; at most {_text(self.most_bytes)} are downloaded", hint=hint)
        if size > shutil.disk_usage(folder).free:
            raise DiskFull(f"no space left for {shown}: it has {_text(size)}", hint=FREE_SPACE)

    def _copied(self, stream: Any, path: Path, shown: str, length: int) -> int:
        size, of_all = 0, f" of {_text(length)}" if length else ""
        with path.open("wb") as file:
            while block := stream.read(_BLOCK_BYTES):
                file.write(block)
                size += len(block)
                if not length:
                    self._check_size(size, shown, path.parent)
                self.progress.update(f"downloading {path.name}: {_text(size)}{of_all}")
        return size


def _text(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def without_secrets(address: str) -> str:
    """Return an address without a password and without what follows ``?``, which may be a signature."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return address.partition("?")[0]
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def _file_name(answer: Any, shown: str) -> str:
    """Return a name for a downloaded file; without a known ending, its content says its format."""
    if answer.headers.get_content_type() == "text/html":
        hint = "give the address of the file itself; a table in a page: pandas.read_html(address)[0]"
        raise InvalidInput(f"{shown} is a web page, not a data file", hint=hint)
    names = [
        answer.headers.get_filename() or "",
        *(PurePosixPath(urlsplit(each).path).name for each in (shown, answer.url)),
    ]
    known = (name for name in names if name.lower().endswith((*SOURCE_ENDINGS, *SPREADSHEET_ENDINGS)))
    name = unquote(next(known, "") or next(filter(None, names), "data"))
    return re.sub(r"[^\w.-]", "_", name)[-100:]


def _refused(error: urllib.error.HTTPError, shown: str) -> StorageError | NotFound:
    if error.code in {404, 410}:
        return NotFound(f"no file at {shown}", hint="check the address")
    hint = "run it again later; or download the file, and give its path"
    if error.code in {401, 403, 407}:
        hint = "download the file with your login, and give its path"
    return NetworkError(f"cannot download {shown}: the server answered {error.code} {error.reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows that some library holds or computes on request, as the user passed them."""

    data: Any

    @property
    def is_spark(self) -> bool:
        return is_spark_frame(self.data)


IngestSource = SourceFile | InMemory | LakeTable


@contextmanager
def opened_sources(
    data: Any, home: Storage | None, options: LoadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Iterator[tuple[IngestSource, ...]]:
    """Yield the files and in-memory data that `data` consists of; files of the web are downloaded until the end.

    Parameters and errors are those of `find_sources` and `Downloads.file`.
    """
    with downloads(progress) as web:
        yield find_sources(data, home, options.csv, sheet=options.sheet, file_format=options.format, web=web)


def find_sources(
    data: Any,
    home: Storage | None = None,
    csv: CsvFormat = DEFAULT_CSV,
    *,
    sheet: str | None = None,
    file_format: str | None = None,
    web: Downloads | None = None,
) -> tuple[IngestSource, ...]:
    """Return the files and in-memory data that `data` consists of, files sorted by name; reads no data.

    Raises `NotFound` when a path or glob names no file; `InvalidInput` when a Spark DataFrame is combined with other
    data, or options are given without a file that they are for.

    Parameters
    ----------
    data
        A pandas, Polars (also lazy) or Spark DataFrame, an Arrow table, batch, reader or dataset, a DuckDB relation,
        or any other object with an Arrow C stream; a list of dictionaries; the path, folder, glob, ``s3://`` or
        ``https://`` address of Parquet, CSV, JSON or Excel files; ``delta:PATH@12`` or ``iceberg:PATH@tag``, or such a
        table of deltalake or PyIceberg; or a list of any of these.
    home
        The table's storage. If it is a bucket, its region and endpoint are also used for other buckets.
    file_format
        The format of all files, as of `with_kind`; None where their names or contents say it.
    """
    several = isinstance(data, list | tuple) and data and not any(isinstance(each, dict) for each in data)
    parts: list[IngestSource] = []
    for each in data if several else [data]:
        if is_web_address(each) and web is not None:
            parts.append(with_kind(replace(web.file(each), csv=csv, sheet=sheet), file_format))
        elif is_lake_address(each):
            parts.append(open_lake_table(each, home))
        elif is_lake_object(each):
            parts.append(table_of_object(each, home))
        elif isinstance(each, str | Path):
            files = find_files(each, home, every=file_format is not None)
            parts += [with_kind(replace(file, csv=csv, sheet=sheet), file_format) for file in files]
        else:
            parts.append(InMemory(with_index(each)))
    if is_spark(parts) and len(parts) > 1:
        raise InvalidInput(
            "a Spark DataFrame cannot be combined with other data in one ingest",
            hint="combine the DataFrames with union, or ingest one after the other",
        )
    _check_options(parts, csv)
    formats = {part.format for part in parts if isinstance(part, SourceFile)} if sheet is not None else set()
    if sheet is not None and "excel" not in formats:
        raise InvalidInput("a sheet is given, but no Excel file", hint="omit sheet")
    if file_format is not None and not any(isinstance(part, SourceFile) for part in parts):
        raise InvalidInput("a format is given, but no file", hint="omit format")
    return tuple(parts)


_OF_FORMATS = {"csv": {each.name for each in fields(CsvFormat)}, "excel": {"null_text", "header", "skip_lines"}}
"""The options that files of a format heed; JSON heeds a text for NULL."""


def _check_options(parts: Iterable[IngestSource], csv: CsvFormat) -> None:
    """Raise `InvalidInput` for options that no file heeds."""
    given = [each.name for each in fields(CsvFormat) if getattr(csv, each.name) != getattr(DEFAULT_CSV, each.name)]
    formats = {part.format for part in parts if isinstance(part, SourceFile)} if given else set()
    heeded = set[str]().union(*(_OF_FORMATS.get(each, set()) for each in formats))
    heeded |= {"null_text"} if "json" in formats else set()
    unheeded = [name for name in given if name not in heeded]
    if unheeded and "excel" in formats:
        are = "is" if len(unheeded) == 1 else "are"
        names = ", ".join(unheeded)
        hint = f"omit {names}; an Excel file is read by sheet, header, skip_lines and null_text"
        raise InvalidInput(f"{names} {are} given, but no CSV file", hint=hint)
    if unheeded:
        raise InvalidInput("CSV options are given, but no CSV file", hint="omit delimiter, null text and header")


def bytes_of(sources: Iterable[IngestSource]) -> int:
    return sum(source.bytes for source in sources if not isinstance(source, InMemory))


def is_spark(sources: Sequence[IngestSource]) -> bool:
    return any(isinstance(source, InMemory) and source.is_spark for source in sources)


def read_source(source: IngestSource, schema: Schema, matching: Matching = EXACT) -> Conformed:
    """Read one source; return its columns that fit the schema, and every difference."""
    if isinstance(source, SourceFile):
        return read_file(source, schema, matching)
    if isinstance(source, LakeTable):
        raw = RawColumns.of(source.to_arrow(), no_place, partial(matching.names, schema=schema))
        return compare(raw, schema, matching).of(source.label)
    data = source.data
    if is_rows(data):
        raw = columns_of_objects(list(enumerate(data, 1)), schema, matching, "row", null_hint=None)
    elif is_pandas(data):
        raw = _from_pandas(data, schema, matching)
    else:
        raw = RawColumns.of(arrow_of(data), rename=partial(matching.names, schema=schema))
    conformed = compare(raw, schema, matching)
    return replace(conformed, notes=(*conformed.notes, *index_note(data)))


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The rows of all sources of a load, with the columns and types of the schema.

    Parameters
    ----------
    notes_of_some
        The same of some files only, with their names.
    """

    rows: pa.Table
    notes: tuple[str, ...]
    notes_of_some: tuple[str, ...]
    judged: JudgedRows

    @property
    def all_notes(self) -> tuple[str, ...]:
        return (*self.notes, *self.judged.notes)


def read_sources(
    sources: Iterable[IngestSource], schema: Schema, matching: Matching = EXACT, *, checks: Sequence[RowCheck] = ()
) -> ReadRows:
    """Read all sources into one table with the schema's columns and types.

    `checks` are the CHECKs and expectations of the table; a row that breaks one that refuses it is a difference too.

    Raises `InvalidInput` for the first difference, with a line for each other column that does not fit.
    """
    sources = tuple(sources)
    with opened_checks(checks) as opened:
        held = [held_against(each, read_source(each, schema, matching), schema, opened) for each in sources]
    raise_first([difference for read, _ in held for difference in read.differences])
    noted = zip(map(label_of, sources), (read.notes for read, _ in held), strict=True)
    judged = reduce(JudgedRows.plus, (each for _, each in held), no_rows_judged(checks))
    return ReadRows(pa.concat_tables([read.table(schema) for read, _ in held]), *notes_of_sources(noted), judged)


def label_of(source: IngestSource) -> str:
    return "" if isinstance(source, InMemory) else source.label


def held_against(
    source: IngestSource, read: Conformed, schema: Schema, checks: OpenedChecks
) -> tuple[Conformed, JudgedRows]:
    """Return a source that was read, with the rules that its rows break as differences, and counts of expectations."""
    if read.differences or not checks.filters:
        return read, JudgedRows()
    placed = read.table(schema), read.place, label_of(source)
    return replace(read, differences=tuple(checks.differences(*placed))), checks.judged(*placed)


def notes_of(sources: Sequence[IngestSource], schema: Schema, matching: Matching = EXACT) -> tuple[str, ...]:
    """Return notes on what a load changes although every value fits, without reading rows.

    NaN in pandas becomes NULL, and columns are left out; those of JSON files are only known after reading them.
    """
    notes: list[str] = []
    extra: dict[str, None] = {}
    parquet = [each for each in sources if isinstance(each, SourceFile) and each.format == "parquet"]
    for source in sources:  # the first Parquet file says whether pandas wrote an index into all of them
        given: tuple[str, ...] = ()
        if matching.ignore_extra or source in parquet[:1]:
            is_json = isinstance(source, SourceFile) and source.format == "json"
            given = () if is_json else matching.columns or tuple(dict.fromkeys(names_of_source(source) or ()))
        elif isinstance(source, InMemory) and not isinstance(source.data, list):
            given = names_of(source.data) or ()
        names = matching.names(given, schema) if given else ()
        if isinstance(source, InMemory) and is_pandas(source.data):
            notes += (*_nan_notes(source.data, names, schema).values(), *index_note(source.data))
        extra |= dict.fromkeys(matching.left_out(names, schema))
    return (*notes, *extra_notes(tuple(extra)))


def names_of_source(source: IngestSource) -> Iterable[str] | None:
    """Return every name of a column of a source, some several times; None if they are only known after reading.

    Files without a header have none; a JSON file is read as far as names are taken.
    """
    if isinstance(source, SourceFile):
        return json_names(source) if source.format == "json" else header_names(source)
    if isinstance(source, LakeTable):
        return list(source.schema.names)
    if isinstance(source.data, list):
        return (str(name) for row in source.data if isinstance(row, dict) for name in row)
    return names_of(source.data)


def _from_pandas(frame: Any, schema: Schema, matching: Matching) -> RawColumns:
    names = matching.names(tuple(str(name) for name in frame.columns), schema)
    fields = {f.name: f for f in schema.fields}
    columns: dict[str, pa.ChunkedArray | Difference | None] = {}
    bad: list[BadValue] = []
    for i, name in enumerate(names):
        series = frame.iloc[:, i]
        if name not in fields:
            columns[name] = untyped_column(series)
            continue
        columns[name], wrong = _from_series(series, fields[name], matching)
        bad += wrong
    differences = tuple(each for each in columns.values() if isinstance(each, Difference))
    read = {name: each for name, each in columns.items() if isinstance(each, pa.ChunkedArray)}
    return RawColumns(names, read, len(frame), differences, notes=_nan_notes(frame, names, schema), bad=tuple(bad))


def _nan_notes(frame: Any, names: Sequence[str], schema: Schema) -> dict[str, str]:
    """Return a note for each float or double column in which NaN values become NULL, by the table's names."""
    floats = {f.name for f in schema.fields if f.type.name in {"float", "double"}}
    notes = {}
    for i, name in enumerate(names):
        count = _nan_count(frame.iloc[:, i]) if name in floats else 0
        if count:
            notes[name] = f"column {name!r}: {counted(count, 'NaN value')} in pandas stored as NULL"
    return notes


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


_FLOATS = frozenset({"float", "double"})


def _without_nan(value: Any, kind: FieldType) -> Any:
    """Return a value of pandas without the NaN that stand for NULL: those of a column, and in lists of whole numbers.

    pandas and NumPy make floats of whole numbers beside NULL.
    """
    if _is_nan(value):
        return None
    if kind.name == "list" and kind.arguments[0].name not in _FLOATS and isinstance(value, list | tuple | np.ndarray):
        if isinstance(value, np.ndarray) and value.dtype.kind not in "fO":
            return value
        return [_without_nan(each, kind.arguments[0]) for each in value]
    if kind.name == "struct" and isinstance(value, dict):
        types = {each.name: each.type for each in kind.arguments if each.type.name not in _FLOATS}
        return {name: _without_nan(each, types[name]) if name in types else each for name, each in value.items()}
    if kind.name == "map" and kind.arguments[1].name not in _FLOATS:
        if isinstance(value, dict):
            return {name: _without_nan(each, kind.arguments[1]) for name, each in value.items()}
        if isinstance(value, list) and all(isinstance(each, tuple) and len(each) == 2 for each in value):
            return [(name, _without_nan(each, kind.arguments[1])) for name, each in value]
    return value


def _nan_count(series: Any) -> int:
    """Return how many values are a float NaN, which pandas also uses for missing values."""
    if series.dtype == object:
        return sum(_is_nan(value) for value in series)
    return int(series.isna().sum()) if isinstance(series.dtype, np.dtype) and series.dtype.kind == "f" else 0


def _from_series(
    series: Any, target: Field, matching: Matching
) -> tuple[pa.ChunkedArray | Difference, tuple[BadValue, ...]]:
    if series.dtype == object:
        values = [_without_nan(value, target.type) for value in series]
        convert = partial(from_python, target=target.type, how=ValueRules(cast=matching.cast))
        return converted(values, convert, target, matching)
    try:
        array = pa.array(series, from_pandas=True)
    except BAD_VALUE as error:
        problem = f"column {target.name!r} of the DataFrame is {series.dtype}: {first_line(error)}"
        return Difference(target.name, problem, (f"convert it to {target.type} first", UNCHANGED)), ()
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]), ()
