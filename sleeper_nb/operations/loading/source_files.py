"""Find the data files that a path, folder, glob or ``s3://`` address names, and describe their format."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound, StorageError
from sleeper_nb.storage.filesystem import Storage, open_near

SOURCE_ENDINGS = (
    ".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".json", ".json.gz", ".jsonl", ".jsonl.gz", ".ndjson",
)  # fmt: skip
"""File name endings that can be ingested; case does not matter."""
_HINT = "give a path or a glob such as data/2026-*.parquet or s3://bucket/folder/*.csv"
_DELIMITER = re.compile(r"[\t -!#-~]")  # an ASCII character other than the quote
_NOT_IN_NULL_TEXT = re.compile(r"[\"\r\n]")
_WILDCARD = re.compile(r"[*?\[]")
_GLOB_TOKEN = re.compile(r"(?:(?<=/)|^)\*\*/|\[!?\]?[^\]]*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CsvFormat:
    r"""The format of a CSV file, as the user gives it.

    Parameters
    ----------
    delimiter
        The character between values, or ``tab``. None means a comma, or a tab for a name that ends in ``.tsv``.
    null_text
        The unquoted text that means NULL; None means the empty text.
    header
        Whether the first line holds the column names. If False, the columns are the table's, in its order.

    Raises
    ------
    InvalidInput
        When the delimiter is not one ASCII character, or the null text contains a quote, delimiter or line break.
    """

    delimiter: str | None = None
    null_text: str | None = None
    header: bool = True

    def __post_init__(self) -> None:
        if self.delimiter in {"tab", r"\t"}:
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (
            not isinstance(self.delimiter, str) or not _DELIMITER.fullmatch(self.delimiter)
        ):
            hint = "give one ASCII character such as ; or |, or the word tab"
            raise InvalidInput(f"{self.delimiter!r} is not a valid delimiter", hint=hint)
        is_bad_null_text = self.null_text is not None and (
            not isinstance(self.null_text, str)
            or _NOT_IN_NULL_TEXT.search(self.null_text)
            or self.separator in self.null_text
        )
        if is_bad_null_text:
            hint = "give a text without quotes, delimiters and line breaks, such as NA"
            raise InvalidInput(f"{self.null_text!r} is not a valid null text", hint=hint)
        if not isinstance(self.header, bool):
            raise InvalidInput(f"header is {self.header!r}, not a boolean", hint="give True or False")

    @property
    def separator(self) -> str:
        """The character between values."""
        return self.delimiter or ","

    @property
    def null(self) -> str:
        """The unquoted text that means NULL."""
        return self.null_text or ""

    def for_file(self, name: str) -> CsvFormat:
        """Return the format of the file `name`: separated by tabs for ``.tsv``, unless a delimiter was given."""
        is_tsv = self.delimiter is None and re.search(r"\.tsv(\.gz)?$", name, re.IGNORECASE)
        return replace(self, delimiter="\t") if is_tsv else self


DEFAULT_CSV = CsvFormat()
"""No options: the delimiter follows from the file's name."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest. It can be pickled, so that a task on a Spark executor can open it.

    Parameters
    ----------
    storage, path
        The folder or bucket, and the path of the file in it.
    bytes
        The file's size.
    csv
        The CSV options, if it is a CSV file.
    """

    storage: Storage
    path: str
    bytes: int
    csv: CsvFormat = DEFAULT_CSV

    @property
    def address(self) -> str:
        """The absolute path, or ``s3://bucket/key``."""
        return self.storage.locate(self.path)

    @property
    def format(self) -> str:
        """``"parquet"``, ``"csv"`` or ``"json"``, from the name's ending.

        Raises
        ------
        InvalidInput
            When the name has none of these endings.
        """
        ending = next((each for each in SOURCE_ENDINGS if self.path.lower().endswith(each)), None)
        if ending is None:
            hint = f"rename it to end in one of {', '.join(SOURCE_ENDINGS)}"
            raise InvalidInput(f"the format of {self.address} is not recognised", hint=hint)
        if ending == ".parquet":
            return "parquet"
        return "csv" if ending.startswith((".csv", ".tsv")) else "json"

    def open(self) -> pa.NativeFile:
        """Open the file for reading; decompresses it if the name ends in ``.gz``."""
        stream = self.storage.input(self.path)
        return pa.CompressedInputStream(stream, "gzip") if self.path.lower().endswith(".gz") else stream


def find_files(source: str | Path, home: Storage | None = None) -> list[SourceFile]:
    """Return the data files that a path, folder, glob or ``s3://`` address names, sorted by name.

    Parameters
    ----------
    source
        A file of any name; a folder, meaning all files below it with one of `SOURCE_ENDINGS`; or a glob, in which
        ``**`` matches any number of folders. In a bucket likewise: an object, a prefix, or a glob.
    home
        The table's storage. If it is a bucket, its region and endpoint are also used for other buckets.

    Raises
    ------
    NotFound
        When nothing matches.
    """
    files = _in_bucket(str(source), home) if str(source).startswith("s3://") else _in_folder(source)
    if not files:
        raise NotFound(f"no data file matches {str(source)!r}", hint=_HINT)
    return files


def _in_folder(source: str | Path) -> list[SourceFile]:
    text = str(Path(str(source).removeprefix("file://")).expanduser())
    if Path(text).is_file():  # first, since a file name can contain brackets
        paths: Iterable[Path] = [Path(text)]
    elif Path(text).is_dir():
        paths = sorted(path for path in Path(text).rglob("*") if path.name.lower().endswith(SOURCE_ENDINGS))
    else:
        paths = sorted(Path(name) for name in glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob needs a folder to start from
    return [_of_path(path) for path in paths]


def _of_path(path: Path) -> SourceFile:
    try:
        return SourceFile(Storage(path.parent), path.name, path.stat().st_size)
    except FileNotFoundError as error:  # deleted since it was listed, or a broken link
        hint = "run it again when no other process changes the files"
        raise NotFound(f"data file {str(path)!r} does not exist any more", hint=hint) from error
    except OSError as error:
        hint = "check the file's permissions, or give another file"
        raise StorageError(f"cannot read {str(path)!r}: {error.strerror}", hint=hint) from error


def _in_bucket(source: str, home: Storage | None) -> list[SourceFile]:
    bucket, _, key = source.removeprefix("s3://").partition("/")
    return list(_matching(open_near(f"s3://{bucket}", home), key))


def _matching(storage: Storage, key: str) -> Iterator[SourceFile]:
    """Yield the object of a key, the data files below a prefix, or the objects that match a glob."""
    if key and not key.endswith("/"):
        try:  # first, since a key can contain brackets
            yield SourceFile(storage, key, storage.size(key))
        except NotFound:
            pass
        else:
            return
    wildcard = _WILDCARD.search(key)
    folder = key.rstrip("/") if wildcard is None else key[: wildcard.start()].rpartition("/")[0]
    for file in storage.list(folder):
        if wildcard is None:
            matches = file.path.lower().endswith(SOURCE_ENDINGS)
        else:
            matches = _glob_pattern(key).fullmatch(file.path) is not None
        if matches:
            yield SourceFile(storage, file.path, file.bytes)


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
