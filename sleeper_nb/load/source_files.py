"""Find the data files that a path, folder, glob or ``s3://`` address names, tell their format, and open them.

The folders of tables in lake formats are refused: some of their files have rows that the table no longer has, and only
its metadata says which.
"""

from __future__ import annotations

import codecs
import contextlib
import glob
import io
import logging
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa

from sleeper_nb.errors import Action, Hint, HintParts, InvalidInput, NotFound, SleeperError, StorageError, first_line
from sleeper_nb.model.csv_format import DEFAULT_CSV, CsvFormat
from sleeper_nb.model.sql_values import quoted_text
from sleeper_nb.report import counted
from sleeper_nb.storage.filesystem import Storage, open_near

_OF_FOLDERS: Final = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_READ_AS_TABLES: Final = frozenset({"Delta", "Iceberg"})
_PAIMON: Final = ("snapshot", "schema", "manifest")
_ICEBERG: Final = "metadata"
_DUCKLAKE: Final = re.compile(r"ducklake-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-delete)?\.parquet")


def check_no_lake_table(
    files: Iterable[str], names: Callable[[str], Collection[str]], locate: Callable[[str], str] = str
) -> None:
    """Raise `InvalidInput` if one of some files belongs to a table in a lake format.

    Parameters
    ----------
    names
        Returns the names of what is in a folder; at least of folders, and of the files in a folder ``metadata``.
    """
    seen: set[PurePosixPath] = set()
    for path in map(PurePosixPath, files):
        if _DUCKLAKE.fullmatch(path.name):
            raise _refused("DuckLake", locate(str(path.parent)))
        for folder in path.parents:
            if folder in seen:
                break
            seen.add(folder)
            if kind := _kind(folder, names):
                raise _refused(kind, locate(str(folder)))


def check_no_local_lake_table(files: Iterable[str]) -> None:
    """Raise `InvalidInput` if one of some files of this machine belongs to a table in a lake format."""
    check_no_lake_table(files, _local_names)


def _local_names(folder: str) -> Collection[str]:
    if Path(folder).name == _ICEBERG:
        return [each.name for each in Path(folder).iterdir()] if os.access(folder, os.R_OK) else ()
    return [name for name in (*_OF_FOLDERS, *_PAIMON, _ICEBERG) if os.path.isdir(f"{folder}/{name}")]  # noqa: PTH112


def _kind(folder: PurePosixPath, names: Callable[[str], Collection[str]]) -> str:
    """Return the format of the table whose folder it is; "" for any other folder."""
    here = names(str(folder))
    if mark := next((name for name in _OF_FOLDERS if name in here), None):
        return _OF_FOLDERS[mark]
    if all(name in here for name in _PAIMON):
        return "Paimon"
    is_iceberg = _ICEBERG in here and any(each.endswith(".metadata.json") for each in names(str(folder / _ICEBERG)))
    return "Iceberg" if is_iceberg else ""


def _refused(kind: str, folder: str) -> InvalidInput:
    read = (
        f"read it as a table: {kind.lower()}:{folder}, or in SQL {kind.lower()}({quoted_text(folder)})"
        if kind in _READ_AS_TABLES
        else f"read it with a library for {kind} and load the result"
    )
    return InvalidInput(
        f"{folder} is a {kind} table: some of its files may have deleted rows",
        hint=f"{read}; to load one file anyway, give its name",
    )


logger = logging.getLogger(__name__)

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""The endings of compressed CSV and JSON files, and their compression; Parquet has its own."""
_TEXT_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
SPREADSHEET_ENDINGS = (".xlsx", ".xlsm")
"""File name endings of spreadsheets; a folder's are left out, as they may be of people."""
SOURCE_ENDINGS = (".parquet", *(f"{text}{more}" for text in _TEXT_ENDINGS for more in ("", *COMPRESSIONS)))
"""File name endings that can be ingested; case does not matter."""
ENDINGS_TEXT = f"{', '.join(SOURCE_ENDINGS[:1] + _TEXT_ENDINGS)}, or compressed as in .csv.gz"
"""These endings, for users."""
_HINT = "give a path or a glob such as data/2026-*.parquet or s3://bucket/folder/*.csv, or https://host/file.csv"
_FOLDER_VALUE = re.compile(r"(?P<name>[^=]+)=(?P<value>.*)", re.DOTALL)
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
WILDCARD = re.compile(r"[*?\[]")
_GLOB_TOKEN = re.compile(r"(?:(?<=/)|^)\*\*/|\[!?\]?[^\]]*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FolderValue:
    """The value that a folder such as ``year=2013`` gives to all rows of the files in it, as Hive names folders.

    Parameters
    ----------
    name, text
        The column, and its value as text; None is NULL.
    is_below
        Whether the folder is below the one that the user named. Otherwise it is part of the typed path: it may have its
        name for other reasons, and only gives a value to a column that the table has and the file lacks.
    """

    name: str
    text: str | None
    is_below: bool


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file holds, where its name does not say it.

    Parameters
    ----------
    format
        ``"parquet"``, ``"csv"``, ``"json"`` or ``"excel"``.
    packed
        The compression of a CSV or JSON file; ``"zip:"`` and a name for a file in a ``.zip`` file.
    """

    format: str
    packed: str | None = None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest. It can be pickled, so that a task on a Spark executor can open it.

    Parameters
    ----------
    web
        The address from which it was downloaded; "" for other files.
    modified
        When it was last written, if a listing of a bucket says so.
    hidden
        How many files the search that found it left out, as their names are hidden; of the first that it found.
    kind
        What it holds; None where its name says it.
    """

    storage: Storage
    path: str
    bytes: int
    csv: CsvFormat = DEFAULT_CSV
    folder_values: tuple[FolderValue, ...] = ()
    sheet: str | None = None
    web: str = ""
    modified: datetime | None = field(default=None, compare=False)
    hidden: int = field(default=0, compare=False)
    kind: FileKind | None = None

    @property
    def label(self) -> str:
        """What the user knows it by: the address on the web, or else the path."""
        return self.web or self.address

    @property
    def address(self) -> str:
        """The absolute path, or ``s3://bucket/key``."""
        return self.storage.locate(self.path)

    @property
    def format(self) -> str:
        """``"parquet"``, ``"csv"``, ``"json"`` or ``"excel"``: its kind, or from the name's ending.

        Raises `InvalidInput` when it has no kind, and the name has none of these endings.
        """
        if self.kind is not None:
            return self.kind.format
        if self.path.lower().endswith(SPREADSHEET_ENDINGS):
            return "excel"
        ending = next((each for each in SOURCE_ENDINGS if self.path.lower().endswith(each)), None)
        if ending is None:
            endings = ", ".join((".parquet", *_TEXT_ENDINGS, *SPREADSHEET_ENDINGS[:1]))
            hint = f"rename it to end in one of {endings}; text may be compressed, as in .csv.gz"
            raise InvalidInput(f"the format of {self.label} is not recognised", hint=hint)
        if ending == ".parquet":
            return "parquet"
        return "csv" if ending.startswith((".csv", ".tsv")) else "json"

    def open(self) -> pa.NativeFile | io.BufferedReader:
        """Open the file for reading; decompresses it if its kind or its name, such as ``.csv.gz``, says so."""
        stream = self.storage.input(self.path)
        compression = COMPRESSIONS.get(PurePosixPath(self.path.lower()).suffix)
        if self.kind is not None:
            compression = self.kind.packed
        if compression is not None and compression.startswith("zip:"):
            try:
                return io.BufferedReader(ZipFile(stream).open(compression.removeprefix("zip:")))
            except RuntimeError as error:  # a password, or a compression that zipfile does not know
                raise InvalidInput(f"cannot read {self.label}: {error}", hint="unzip it, and load that file") from error
        return stream if compression is None else pa.CompressedInputStream(stream, compression)


def has_known_format(file: SourceFile) -> bool:
    return file.path.lower().endswith((*SOURCE_ENDINGS, *SPREADSHEET_ENDINGS))


def find_files(source: str | Path, home: Storage | None = None, *, every: bool = False) -> list[SourceFile]:
    """Return the data files that a path, folder, glob or ``s3://`` address names, sorted by name.

    Raises `NotFound` when nothing matches; `InvalidInput` when files of a folder or glob belong to a table in a lake
    format; `StorageError` when a file cannot be looked at, such as a link to no file.

    Parameters
    ----------
    source
        A file of any name; a folder, meaning all files below it with one of `SOURCE_ENDINGS`; or a glob, in which
        ``**`` matches any number of folders; a folder that it matches means all such files below it. In a bucket
        likewise: an object, a prefix, or a glob. Files with hidden names are only found by their own.
    every
        Whether the files of a folder count whatever their endings.
    """
    found = search(source, home, every=every)
    if not found.files:
        hint: Hint = f"{found.note}; to load a hidden file, give its name" if found.hidden else _HINT
        if not every and not found.hidden and (others := len(search(source, home, every=True).files)):
            names = f"{counted(others, 'file')} with other endings than {ENDINGS_TEXT}"
            hint = (f"{names}: to load them, add their format, such as ", Action("--read format=csv", "format='csv'"))
        raise NotFound(f"no data file matches {str(source)!r}", hint=hint)
    return [replace(found.files[0], hidden=found.hidden), *found.files[1:]]


def search(source: str | Path, home: Storage | None = None, *, every: bool = False) -> FoundFiles:
    """Return what `find_files` does, and how many files with hidden names it leaves out; perhaps there is nothing."""
    endings = ("",) if every else SOURCE_ENDINGS
    is_remote = str(source).startswith("s3://")
    return _in_bucket(str(source), home, endings) if is_remote else _in_folder(source, endings)


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that a user's words name, and how many more there are with hidden names."""

    files: Sequence[SourceFile]
    hidden: int = 0

    @property
    def note(self) -> str:
        """How many files were left out as their names are hidden; "" for none."""
        names = "its name or folder begins" if self.hidden == 1 else "their names or folders begin"
        return f"{counted(self.hidden, 'file')} left out, as {names} with . or _" if self.hidden else ""


def is_hidden(path: str, pattern: str = "") -> bool:
    """Return whether a name in a path begins with ``.`` or ``_``: writers and tools use such names for other files.

    Parameters
    ----------
    path
        Below the folder that the user named; a folder such as ``_year=2026`` gives a value to a column.
    pattern
        The glob that found it: what it names so is not hidden.
    """
    named = [each for each in pattern.split("/") if each.startswith((".", "_"))]
    return any(
        name.startswith((".", "_"))
        and not (name.startswith("_") and "=" in name)
        and not any(fnmatchcase(name, each) for each in named)
        for name in path.split("/")
    )


def hidden_note(files: Iterable[SourceFile]) -> str:
    """Return how many files the searches that found some files left out as their names are hidden; "" for none."""
    return FoundFiles((), sum(each.hidden for each in files)).note


def other_files(folder: str, home: Storage | None = None) -> list[str]:
    """Return the files that `find_files` leaves out of a folder or an ``s3://`` prefix: their paths below it."""
    if folder.startswith("s3://"):
        bucket, _, key = folder.removeprefix("s3://").partition("/")
        prefix = f"{key.rstrip('/')}/" if key else ""
        names = [file.path.removeprefix(prefix) for file in open_near(f"s3://{bucket}", home).list(key.rstrip("/"))]
    else:
        names = [path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()]
    return [name for name in names if not name.lower().endswith(SOURCE_ENDINGS)]


def _in_folder(source: str | Path, endings: tuple[str, ...]) -> FoundFiles:
    text = str(Path(str(source).removeprefix("file://")).expanduser())
    if Path(text).is_file():  # first, since a file name can contain brackets
        return FoundFiles([_of_path(Path(text), Path(text).parent)])
    folder, pattern = Path(text), ""
    if folder.is_dir():
        paths = sorted(_below(folder, endings))
    else:
        pattern, wildcard = text, WILDCARD.search(text)
        found = map(Path, glob.glob(text, recursive=True, include_hidden=True))  # noqa: PTH207 - Path.glob needs a folder
        paths = sorted({path for each in found for path in (_below(each, endings) if each.is_dir() else [each])})
        folder = Path(text[: wildcard.start() if wildcard else None].rpartition("/")[0])
    above = len(folder.parts)
    visible = [path for path in paths if not is_hidden("/".join(path.parts[above:]), pattern)]
    check_no_local_lake_table(str(path.absolute()) for path in visible)
    return FoundFiles([_of_path(path, folder) for path in visible], len(paths) - len(visible))


def _below(folder: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    """Yield the data files below a folder; a folder may be named as a file, as Spark's ``out.parquet`` is."""
    return (path for path in folder.rglob("*") if path.name.lower().endswith(endings) and not path.is_dir())


def _of_path(path: Path, folder: Path) -> SourceFile:
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:  # deleted since it was listed, or a broken link
        if path.is_symlink():
            hint = "delete the link, or create the file"
            problem = "it is a link to a file that does not exist"
            raise StorageError(f"cannot read {str(path)!r}: {problem}", hint=hint) from error
        hint = "run it again when no other process changes the files"
        raise NotFound(f"data file {str(path)!r} does not exist any more", hint=hint) from error
    except OSError as error:
        hint = "check the file's permissions, or give another file"
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror}", hint=hint) from error
    values = _folder_values(folder.parts, path.parent.parts[len(folder.parts) :])
    return SourceFile(Storage(path.parent), path.name, size, folder_values=values)


def _folder_values(named: Iterable[str], below: Iterable[str]) -> tuple[FolderValue, ...]:
    """Return the values of folders that the user named, and of those below them."""
    parts = [*((part, False) for part in named), *((part, True) for part in below)]
    return tuple(
        FolderValue(
            _decoded(match["name"]), None if match["value"] == _HIVE_NULL else _decoded(match["value"]), is_below
        )
        for part, is_below in parts
        if (match := _FOLDER_VALUE.fullmatch(part))
    )


def _decoded(part: str) -> str:
    """Return part of the name of a folder with the characters that its ``%2F`` mean."""
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{part!r} in the name of a folder is not UTF-8", hint="rename the folder") from error


def _in_bucket(source: str, home: Storage | None, endings: tuple[str, ...]) -> FoundFiles:
    """Return the object of a key, the data files below a prefix, or the objects that match a glob."""
    bucket, _, key = source.removeprefix("s3://").partition("/")
    storage = open_near(f"s3://{bucket}", home)
    if key and not key.endswith("/"):
        try:  # first, since a key can contain brackets
            values = _folder_values(key.split("/")[:-1], ())
            return FoundFiles([SourceFile(storage, key, storage.size(key), folder_values=values)])
        except NotFound:
            pass
    wildcard = WILDCARD.search(key)
    pattern = "" if wildcard is None else key
    folder = key.rstrip("/") if wildcard is None else key[: wildcard.start()].rpartition("/")[0]
    named = folder.split("/") if folder else []
    listed = storage.list(folder)
    matching = [file for file in listed if _matches(file.path, pattern, endings)]
    visible = [file for file in matching if not is_hidden("/".join(file.path.split("/")[len(named) :]), pattern)]
    if visible:
        names = partial(_names_in_bucket, storage, folder, _names_by_folder(file.path for file in listed))
        check_no_lake_table((file.path for file in visible), names, storage.locate)
    files = [
        SourceFile(
            *(storage, file.path, file.bytes),
            folder_values=_folder_values(named, file.path.split("/")[len(named) : -1]),
            modified=file.modified,
        )
        for file in visible
    ]
    return FoundFiles(files, len(matching) - len(visible))


def _matches(path: str, pattern: str, endings: tuple[str, ...]) -> bool:
    return _glob_pattern(pattern).fullmatch(path) is not None if pattern else path.lower().endswith(endings)


def _names_by_folder(paths: Iterable[str]) -> Mapping[str, set[str]]:
    names: defaultdict[str, set[str]] = defaultdict(set)
    for path in paths:
        below = path
        while below:
            folder, _, name = below.rpartition("/")
            if name in names[folder]:
                break
            names[folder].add(name)
            below = folder
    return names


def _names_in_bucket(storage: Storage, listed_folder: str, listed: Mapping[str, set[str]], folder: str) -> set[str]:
    """Return the names in a folder: from the listing below it, or by a request for a folder above the listed one."""
    path = "" if folder == "." else folder
    if not listed_folder or path == listed_folder or path.startswith(f"{listed_folder}/"):
        return listed.get(path, set())
    try:
        if path.endswith("/metadata"):
            return {file.path.rpartition("/")[2] for file in storage.list(path)}
        return set(storage.folders(path))
    except SleeperError as error:  # a folder above may be forbidden
        logger.debug("%s is not looked at: %s", storage.locate(path), error)
        return set()


@lru_cache(maxsize=16)
def _glob_pattern(glob_text: str) -> re.Pattern[str]:
    """Return a glob as a regular expression: ``*`` stays within a folder, ``**/`` matches any number of folders."""
    return re.compile(_GLOB_TOKEN.sub(lambda token: _token_pattern(token[0]), glob_text), re.DOTALL)


def _token_pattern(token: str) -> str:
    known = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}
    if token.startswith("[") and len(token) > 1:
        inner = token[1:-1].replace("\\", "\\\\")
        return f"[^{inner[1:]}/]" if inner.startswith("!") else f"[{inner}]"
    return known.get(token) or re.escape(token)


BLOCK_BYTES = 8 << 20
"""Bytes of a CSV or JSON file that are parsed together, plus the rest of the last line; no CSV row can be longer."""


@contextlib.contextmanager
def read_errors(file: SourceFile) -> Iterator[None]:
    """Raise errors of Arrow and the file system as `StorageError`, with the file's address."""
    try:
        yield
    except SleeperError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        if isinstance(error, UnicodeError) or "invalid UTF8" in str(error):
            raise _not_in_encoding(file) from error
        hint: HintParts = ("the file may be truncated or not in this format",)
        if file.format == "csv" and "Expected" in str(error):  # a line of UTF-8 does not come here
            hint = ("correct the line; if its text is not UTF-8, ", *ENCODING_HINT)
        raise StorageError(f"cannot read {file.label}: {first_line(error)}", hint=hint) from error


def _not_in_encoding(file: SourceFile, head: bytes = b"") -> StorageError:
    hint: HintParts = ("save it as UTF-8, or convert it: iconv -f CP1252 -t UTF-8 old > new",)
    if file.format == "csv":
        wide = _wide_encoding(head)
        hint = ("say its encoding, such as ", _encoding_option(wide)) if wide else ENCODING_HINT
    return StorageError(f"cannot read {file.label}: its text is not {file.csv.encoding or 'UTF-8'}", hint=hint)


def _encoding_option(name: str) -> Action:
    return Action(f"--read encoding={name}", f"encoding={name!r}")


ENCODING_HINT: Final[HintParts] = (
    "say its encoding, such as ",
    _encoding_option("cp1252"),
    " for Western Europe, cp1251 for Cyrillic, shift_jis for Japanese or gb18030 for Chinese",
)
"""What to do about a CSV file that is not UTF-8."""


def _wide_encoding(head: bytes) -> str:
    """Return the encoding of a text that has two or four bytes for each letter; "" for another."""
    return next((name for shape, name in _WIDE if shape.match(head)), "")


_WIDE: Final = tuple(
    (re.compile(shape, re.DOTALL), name)
    for shape, name in (
        (rb"\xff\xfe\0\0|\0\0\xfe\xff", "utf-32"), (rb"\xff\xfe|\xfe\xff", "utf-16"),
        (rb"[^\0]\0[^\0]\0", "utf-16-le"), (rb"\0[^\0]\0[^\0]", "utf-16-be"),
    )
)  # fmt: skip
"""How such texts begin: with a mark, or with letters of ASCII."""
_MARKS: Final = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<zstd>\x28\xb5\x2f\xfd)|(?P<bz2>BZh[1-9]1AY&SY)"
    rb"|(?P<parquet>PAR1[\x15\x1c])|(?P<excel>PK\x03\x04)"
)


def _check_not_xz(file: SourceFile, head: bytes) -> None:
    if head.startswith(b"\xfd7zXZ\0"):
        raise InvalidInput(f"{file.label} is compressed by xz, which cannot be read", hint="decompress it, with unxz")


class MisnamedFile(InvalidInput):
    """A file that is of another format than its name says; its hint begins with what to do without an option."""


def check_is_text(file: SourceFile, head: bytes) -> None:
    """Raise when a file of CSV or JSON, as its name says, begins as a file of another format, or is not UTF-8.

    Raises `MisnamedFile` when it is compressed, or a Parquet or Excel file; `StorageError` when its text has two or
    four bytes for each letter, and no encoding is given.
    """
    _check_not_xz(file, head)
    if (mark := _MARKS.match(head)) is not None:
        kind = str(mark.lastgroup)
        what = {"parquet": "Parquet", "excel": "a .zip or Excel file"}.get(kind, f"compressed by {kind}")
        is_format = kind if kind in {"parquet", "excel"} else file.format
        say_it = Action(f"--read format={is_format}", f"format={is_format!r}")
        packed = (f".{file.format}{ending}" for ending, name in COMPRESSIONS.items() if name == kind)
        ending = {"parquet": ".parquet", "excel": ".xlsx or .zip"}.get(kind) or next(packed)
        renaming = f"rename it to end in {ending}"
        problem = f"{file.label} is {what}, and its name does not say so"
        raise MisnamedFile(problem, hint=(renaming, ", or add ", say_it))
    if file.csv.encoding is None and _wide_encoding(head):
        raise _not_in_encoding(file, head) from UnicodeError("letters of two or four bytes")


_LOOKED_AT: Final = 64 << 10
_JSON: Final = re.compile(r"\s*(\{|\[\s*[\[\{\]])")
_DELIMITERS: Final = (",", "\t", ";", "|")
_SAY_IT: Final = ("say its format, such as ", Action("--read format=csv", "format='csv'"))


def with_kind(file: SourceFile, given: str | None) -> SourceFile:
    """Return a file with its format: the given one, or that of its content where its name says none.

    Raises `InvalidInput` when the content is of no format that is known, or a ``.zip`` file has several files in it.

    Parameters
    ----------
    given
        ``csv``, ``tsv``, ``json``, ``parquet`` or ``excel``; None where the user says nothing.
    """
    if given is None and has_known_format(file):
        return file
    with read_errors(file), file.storage.input(file.path) as stream:
        head = bytes(stream.read(_LOOKED_AT))
    _check_not_xz(file, head)
    if given in {"parquet", "excel"}:
        return replace(file, kind=FileKind(given))
    mark = _MARKS.match(head)
    packed = None if mark is None else mark.lastgroup
    if given is None and packed == "parquet":
        return replace(file, kind=FileKind("parquet"))
    if packed == "excel" and (packed := _zipped(file)) is None:
        return replace(file, kind=FileKind("excel"))
    kind = FileKind("csv", packed if packed != "parquet" else None)
    return _of_text(replace(file, kind=kind), given)


def _zipped(file: SourceFile) -> str | None:
    """Return ``zip:`` and the only file in a ``.zip`` file; None when it is a spreadsheet."""
    try:
        with file.storage.input(file.path) as stream, ZipFile(stream) as opened:
            every = [each for each in opened.namelist() if not each.endswith("/")]
    except BadZipFile as error:
        raise InvalidInput(f"cannot read {file.label}: it is not a .zip file", hint="copy it again") from error
    names = [each for each in every if not is_hidden(each) and not each.startswith("__MACOSX/")]
    if "xl/workbook.xml" in every:
        return None
    if len(names) != 1 or names[0].lower().endswith((".parquet", *SPREADSHEET_ENDINGS)):
        listed = ", ".join(names[:3]) or "none"
        hint = "unzip it, and load the files or their folder"
        raise InvalidInput(f"{file.label} does not have one file of CSV or JSON in it, but {listed}", hint=hint)
    return f"zip:{names[0]}"


def _of_text(file: SourceFile, given: str | None) -> SourceFile:
    """Return a file of text as CSV or JSON, and CSV with its delimiter."""
    with read_errors(file), file.open() as stream:
        head = bytes(stream.read(_LOOKED_AT))
    is_utf_16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if given is None and b"\0" in head and not is_utf_16 and file.csv.encoding is None:
        raise InvalidInput(f"the format of {file.label} is not recognised", hint=_SAY_IT)
    text = head.removeprefix(codecs.BOM_UTF8).decode(file.csv.encoding or "utf-8", errors="replace")
    assert file.kind is not None  # noqa: S101 - the caller gave it one
    if given == "json" or (given is None and _JSON.match(text)):
        return replace(file, kind=replace(file.kind, format="json"))
    delimiter = "\t" if given == "tsv" else file.csv.delimiter or _delimiter(text, file.csv)
    return replace(file, csv=replace(file.csv, delimiter=delimiter)) if delimiter else file


def _delimiter(text: str, csv_format: CsvFormat) -> str | None:
    """Return the character that separates most names in the header of a CSV file; None where there is only one name."""
    lines = io.StringIO(text).readlines()[csv_format.skip_lines :]
    lines = [line for line in lines if not (csv_format.comment and line.startswith(csv_format.comment))]
    header = next(filter(str.strip, lines), "")
    unquoted = re.sub(r'"[^"]*"', "", header)
    free = [each for each in _DELIMITERS if each not in {csv_format.quote, csv_format.escape, csv_format.comment}]
    most = max(free, key=unquoted.count)
    return most if unquoted.count(most) else None


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """Some rows of a source: its columns as Arrow, pandas or Python has them; the number of each row or its line."""

    columns: Mapping[str, Any]
    numbers: Sequence[int]


def taken(batches: Iterable[pa.RecordBatch], rows: Sequence[int], schema: pa.Schema) -> tuple[pa.Table, int]:
    """Return the rows of a stream that have some indexes, and how many rows were read; all, if some are missing."""
    wanted, start, found = np.asarray(rows, np.int64), 0, []
    for batch in batches:
        here = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        found.append(batch.take(pa.array(here)))
        start += batch.num_rows
        if start > rows[-1]:
            break
    return pa.Table.from_batches(found, schema), start
