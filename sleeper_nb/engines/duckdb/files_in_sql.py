"""Read files that SQL names as a load reads them: every line counts, and the first one has the names of the columns.

DuckDB guesses how a text file is written, skips lines that do not fit its guess, and rounds numbers of JSON. So a text
file that stands in place of a table is read by the reader of a load; and a call such as ``read_csv('a.csv')`` reads
from the first line, unless it says itself what to leave out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Final, TypeAlias

import duckdb
import pyarrow as pa

from sleeper_nb.engines.duckdb.duckdb_errors import encoding_hint
from sleeper_nb.engines.duckdb.duckdb_reads import FILE_FUNCTIONS, Query
from sleeper_nb.engines.duckdb.relations import ArrowStream, name_rows, query
from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.load.csv_files import empty_lines_above, is_of_values
from sleeper_nb.load.data_columns import DataColumn, columns_of
from sleeper_nb.load.file_formats import header_names, pieces_of
from sleeper_nb.load.load_options import Matching, index_of_pandas, is_nameless, valid_name
from sleeper_nb.load.source_files import (
    WILDCARD,
    FolderValue,
    MisnamedFile,
    SourceFile,
    has_known_format,
    search,
)
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.sql_values import quoted_name, quoted_text
from sleeper_nb.sql.binding import Bound
from sleeper_nb.sql.references import TableReference, file_references
from sleeper_nb.sql.statement import Replacement, Statement
from sleeper_nb.sql.tokens import Token, skip_brackets, spells, unquote
from sleeper_nb.storage.local_files import absolute, as_pattern

_CSV_CALLS: Final = frozenset({"READ_CSV", "READ_CSV_AUTO"})
_JSON_CALLS: Final = frozenset({"READ_JSON", "READ_JSON_AUTO", "READ_NDJSON", "READ_NDJSON_AUTO"})
_WITH_LISTS: Final = FILE_FUNCTIONS - {"glob", "sniff_csv"}
"""Functions that read a file or a list of files."""
_IS: Final = frozenset({"=", ":", "=>"})
"""What follows the name of an option."""
_WHOLE_CSV: Final = {"skip": "0", "comment": "''"}
_WHOLE_JSON: Final = {"sample_size": "-1", "maximum_sample_files": "2147483647"}


FileRows: TypeAlias = str | ArrowStream
"""A query, or rows."""


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """A statement that reads each line of the files that it names.

    Parameters
    ----------
    bound
        The statement and its views, with generated names in place of files.
    rows
        What each generated name stands for: the query that reads the files, or their rows as our reader has them.
    notes
        What is said of files that are left out.
    """

    bound: Bound
    rows: Mapping[str, FileRows]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, bound: Bound, allowed: Collection[str]) -> ReadableFiles:
        """Return a statement in which files are read as a load reads them.

        Parameters
        ----------
        bound
            The statement.
        allowed
            The absolute paths of the files that it may read; no other one is opened.

        Raises
        ------
        InvalidInput
            When a load would refuse the columns of a file, or files of a glob belong to a table in a lake format.
        NotFound
            When a glob matches no file.
        """
        names = NamedFiles(bound.unused_mark, allowed)
        readable = names.readable(bound)
        return cls(readable, names.rows, tuple(dict.fromkeys(filter(None, names.notes))))

    def name(self, connection: duckdb.DuckDBPyConnection) -> None:
        for name, rows in self.rows.items():
            name_rows(connection, name, query(connection, Query(rows, rows)) if isinstance(rows, str) else rows)


class NamedFiles:
    """Gives names to the files of a statement and its views; collects what reads them, and notes."""

    def __init__(self, mark: str, allowed: Collection[str]) -> None:
        self._mark, self._allowed = mark, allowed
        self.rows: dict[str, FileRows] = {}
        self.notes: list[str] = []

    def readable(self, bound: Bound) -> Bound:
        """Return a statement with these names."""
        statement = bound.statement
        edits = [edit for each in file_references(statement) for edit in self._table(each)]
        edits += self._calls(statement)
        named = {name: self.readable(what) if isinstance(what, Bound) else what for name, what in bound.named.items()}
        return replace(bound, statement=statement.replaced(edits), named=named)

    def _table(self, reference: TableReference) -> Iterator[Replacement]:
        """Yield what takes the place of a file that stands in place of a table, and the alias that it needs then."""
        files = self._files(reference.name)
        is_glob = WILDCARD.search(reference.name) is not None
        rows = _rows(files, is_glob=is_glob) if files and all(map(has_known_format, files)) else None
        if rows is None:
            return
        name = f"{self._mark}file{len(self.rows)}"
        self.rows[name] = rows
        yield Replacement(reference.start, reference.end, quoted_name(name))
        if reference.alias_at is not None and reference.role != "describe":
            alias = re.split(r"[/\\]", reference.name)[-1].partition(".")[0]  # as DuckDB names a file
            yield Replacement(reference.alias_at, reference.alias_at, f"AS {quoted_name(alias or reference.name)}")

    def _files(self, path: str) -> list[SourceFile]:
        """Return the local files of a path; none where DuckDB says best what is wrong with it."""
        if "://" in path and not path.startswith("file:"):
            return []
        try:
            found = search(path)
        except NotFound:  # it was deleted meanwhile
            return []
        if found.hidden and not found.files:
            raise NotFound(f"no data file matches {path!r}: {found.note}", hint="to read a hidden file, give its name")
        self.notes.append(found.note)
        # a load also reads the files in a folder that a glob matches; DuckDB does not
        return [each for each in found.files if absolute(each.address) in self._allowed]

    def _calls(self, statement: Statement) -> Iterator[Replacement]:
        """Yield the options that make a call such as ``read_csv`` read all lines, and the visible files of a glob."""
        tokens = statement.tokens
        for at, token in enumerate(tokens):
            word = token.word or unquote(token, dialect="duckdb").upper() if token.kind in {"word", "quoted"} else ""
            if word.lower() not in _WITH_LISTS or not spells(tokens, at + 1, "("):
                continue
            yield from self._visible(tokens, at + 2)
            path = tokens[at + 2]
            pattern = unquote(path, dialect="duckdb") if path.kind == "string" else ""
            end = skip_brackets(tokens, at + 1) - 1
            given = {each.word for each, after in pairwise(tokens[at : end + 1]) if after.symbol in _IS}
            missing = _missing(word, given)
            files = self._files(pattern) if "skip" in missing and pattern and not WILDCARD.search(pattern) else []
            if files and has_known_format(files[0]):
                missing["skip"] = str(empty_lines_above(files[0]))
            if missing and tokens[end].symbol == ")":
                yield Replacement(tokens[end].start, tokens[end].start, f", {_options(missing)}")

    def _visible(self, tokens: Sequence[Token], first: int) -> Iterator[Replacement]:
        """Yield the visible files of the globs in an argument that is a text or a list of texts; others are refused."""
        is_list = tokens[first].symbol == "["
        for at in range(first, skip_brackets(tokens, first) if is_list else first + 1):
            pattern = unquote(tokens[at], dialect="duckdb") if tokens[at].kind == "string" else ""
            is_alone = tokens[at - 1].symbol in {"(", "[", ","} and tokens[at + 1].symbol in {")", "]", ","}
            if WILDCARD.search(pattern) and is_alone and (files := self._files(pattern)) and self.notes[-1]:
                listed = _listed(files)
                yield Replacement(tokens[at].start, tokens[at].end, listed[1:-1] if is_list else listed)


def _rows(files: Sequence[SourceFile], *, is_glob: bool) -> FileRows | None:
    """Return what reads files; None where DuckDB reads them whole, or not at all."""
    formats = {file.format for file in files}
    if len(formats) > 1:
        raise InvalidInput("the name matches files of several formats", hint="match one format: 'data/*.csv'")
    if formats <= {"csv", "json"} or (formats == {"parquet"} and any(map(_repeats_folder, files))):
        return _rows_as_loaded(files)
    if formats == {"parquet"} and is_glob:
        return f"FROM read_parquet({_listed(files)}, union_by_name = true)"
    return None


def _listed(files: Sequence[SourceFile]) -> str:
    return f"[{', '.join(quoted_text(as_pattern(file.address)) for file in files)}]"


def _options(options: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in options.items())


def _repeats_folder(file: SourceFile) -> bool:
    """Return whether a file has a column that its folder names too: DuckDB takes either value and reports nothing."""
    folders = {each.name for each in file.folder_values if each.is_below}
    return bool(folders) and not folders.isdisjoint(header_names(file))


def _rows_as_loaded(files: Sequence[SourceFile]) -> ArrowStream:
    """Return the rows of files as a load reads them."""
    with _sql_hint(files[0]):
        found = columns_of(files)
        index = index_of_pandas(each.name for each in found)
        columns = [each for each in found if each.name not in index]
        _check(columns, files[0])
    names = [each.name for each in columns]
    *own, key = _distinct([*map(valid_name, names), "file"])
    fields = [Field(name, each.type, nullable=True) for name, each in zip(own, columns, strict=True) if each.type]
    schema = Schema({key: "string"}, values=fields)
    matching = Matching(renames=tuple((name, new) for name, new in zip(names, own, strict=True) if name != new))

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            key_value = FolderValue(key, file.path, is_below=True)  # a load needs a key, and SQL does not
            keyed = replace(file, folder_values=(*file.folder_values, key_value))
            with _sql_hint(file):
                for piece in pieces_of(keyed, schema, None, matching):
                    yield from piece.drop_columns([key]).rename_columns(names).to_batches()

    return ArrowStream(schema.arrow.empty_table().drop_columns([key]).rename_columns(names).schema, batches)


def _check(columns: Sequence[DataColumn], file: SourceFile) -> None:
    names = [each.name for each in columns]
    if problem := next((each.problem for each in columns if each.problem), ""):
        raise InvalidInput(f"{file.label}: {problem}")
    if not columns:
        raise InvalidInput(f"{file.label} has no columns")
    if file.format == "csv" and (is_of_values(names) or any(map(is_nameless, names))):
        listed = ", ".join(map(repr, names[:5]))
        raise InvalidInput(f"the first line of {file.label} may have no column names: {listed}")
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidInput(f"two columns of {file.label} have the same name")


_READ: Final = {
    "csv": "say how it is written, such as {}, delim = ';', all_varchar = true, header = false)",
    "json": "say its columns and types: {}, columns = {{k: 'BIGINT', v: 'JSON'}})",
    "parquet": "take what is in the file: {}, hive_partitioning = false)",
}


@contextmanager
def _sql_hint(file: SourceFile) -> Iterator[None]:
    """Give errors about the content of a file a hint for SQL: those of a load name options that SQL lacks."""
    try:
        yield
    except (InvalidInput, StorageError) as error:
        call = f"read_{file.format}({quoted_text(file.label)}"
        if isinstance(error, MisnamedFile):
            error.hint = error.hint_parts[0]
        elif "UTF-8" in error.message:
            error.hint = encoding_hint(call)
        else:
            error.hint = f"correct it, or {_READ[file.format].format(call)}"
        raise


def _distinct(names: Iterable[str]) -> list[str]:
    """Return names with underscores after those that occur before, whatever their case."""
    taken: dict[str, str] = {}
    for name in names:
        times = next(n for n in count() if f"{name}{'_' * n}".casefold() not in taken)
        new = f"{name}{'_' * times}"
        taken[new.casefold()] = new
    return list(taken.values())


def _missing(call: str, given: Collection[str]) -> dict[str, str]:
    """Return the options without which a call may leave out lines or columns; none if it says itself what it wants."""
    if call in _CSV_CALLS and not {"AUTO_DETECT", "IGNORE_ERRORS"}.intersection(given):
        return {name: value for name, value in _WHOLE_CSV.items() if name.upper() not in given}
    if call in _JSON_CALLS and not {"COLUMNS", "SAMPLE_SIZE", "MAXIMUM_SAMPLE_FILES"}.intersection(given):
        return dict(_WHOLE_JSON)
    return {}
