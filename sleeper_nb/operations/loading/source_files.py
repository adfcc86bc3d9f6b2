"""The data files that a path, folder, glob or ``s3://`` address names; each can be opened by any process."""

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

FORMATS = (
    ".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".json", ".json.gz", ".jsonl", ".jsonl.gz", ".ndjson",
)  # fmt: skip
"""The endings of names that can be loaded, in any case."""
_HINT = "give a path or a glob such as data/2026-*.parquet or s3://bucket/folder/*.csv"
_DELIMITER = re.compile(r"[\t -!#-~]")  # no quote
_NO_NULL_TEXT = re.compile(r"[\"\r\n]")
_WILD = re.compile(r"[*?\[]")
_TOKEN = re.compile(r"(?:(?<=/)|^)\*\*/|\[!?\]?[^\]]*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CsvFormat:
    r"""How a CSV file is written, where that is not as its name says.

    Parameters
    ----------
    delimiter
        One character between values, or ``tab``; None is a comma, and a tab in ``.tsv``.
    null_text
        The text, without quotes, that means NULL; the empty one when None.
    header
        Whether the first line names the columns; without, they are those of the table, in its order.
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
            raise InvalidInput(f"no delimiter {self.delimiter!r}", hint=hint)
        bad = self.null_text is not None and (
            not isinstance(self.null_text, str)
            or _NO_NULL_TEXT.search(self.null_text)
            or self.separator in self.null_text
        )
        if bad:
            hint = "give a text without quotes, delimiters and line breaks, such as NA"
            raise InvalidInput(f"no text for NULL {self.null_text!r}", hint=hint)
        if not isinstance(self.header, bool):
            raise InvalidInput(f"no header {self.header!r}", hint="give True or False")

    @property
    def separator(self) -> str:
        """What is between values."""
        return self.delimiter or ","

    @property
    def null(self) -> str:
        """What means NULL."""
        return self.null_text or ""

    def named(self, name: str) -> CsvFormat:
        """Return the same for a file of some name."""
        is_tsv = self.delimiter is None and re.search(r"\.tsv(\.gz)?$", name, re.IGNORECASE)
        return replace(self, delimiter="\t") if is_tsv else self


AS_NAMED = CsvFormat()
"""As the name of the file says."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load. It can be pickled, so that a task on a Spark executor opens it by itself.

    Parameters
    ----------
    storage, path
        The folder or bucket, and the file below it.
    bytes
        Its size.
    csv
        How it is written, if it is a CSV file.
    """

    storage: Storage
    path: str
    bytes: int
    csv: CsvFormat = AS_NAMED

    @property
    def address(self) -> str:
        """What users and engines call it: an absolute path, or ``s3://bucket/key``."""
        return self.storage.locate(self.path)

    @property
    def format(self) -> str:
        """``"parquet"``, ``"csv"`` or ``"json"``, as the name says.

        Raises
        ------
        InvalidInput
            When the name ends otherwise.
        """
        kind = next((end for end in FORMATS if self.path.lower().endswith(end)), None)
        if kind is None:
            hint = f"its name ends in {', '.join(FORMATS)}"
            raise InvalidInput(f"cannot tell the format of {self.address}", hint=hint)
        return "parquet" if kind == ".parquet" else "csv" if kind.startswith((".csv", ".tsv")) else "json"

    def open(self) -> pa.NativeFile:
        """Open it for reading, unpacked where the name ends in ``.gz``."""
        stream = self.storage.input(self.path)
        return pa.CompressedInputStream(stream, "gzip") if self.path.lower().endswith(".gz") else stream


def find_files(source: str | Path, home: Storage | None = None) -> list[SourceFile]:
    """Return the data files that a path, folder, glob or ``s3://`` address names, by name.

    Parameters
    ----------
    source
        A file, of any name; a folder, whose files below it count by their endings; or a glob, ``**`` for any folders.
        In a bucket likewise: an object, a prefix, or a glob.
    home
        The table's storage: where it is in a bucket, its region and server are those of other buckets too.

    Raises
    ------
    NotFound
        When there is none.
    """
    found = _in_bucket(str(source), home) if str(source).startswith("s3://") else _in_folder(source)
    if not found:
        raise NotFound(f"no data file {str(source)!r}", hint=_HINT)
    return found


def _in_folder(source: str | Path) -> list[SourceFile]:
    text = str(Path(str(source).removeprefix("file://")).expanduser())
    if Path(text).is_file():  # first, for a name can have brackets of its own
        paths: Iterable[Path] = [Path(text)]
    elif Path(text).is_dir():
        paths = sorted(path for path in Path(text).rglob("*") if path.name.lower().endswith(FORMATS))
    else:
        paths = sorted(Path(name) for name in glob.glob(text, recursive=True))  # noqa: PTH207 - pathlib's needs a folder to start from
    return [_of_path(path) for path in paths]


def _of_path(path: Path) -> SourceFile:
    try:
        return SourceFile(Storage(path.parent), path.name, path.stat().st_size)
    except FileNotFoundError as error:  # also a link whose target is gone
        raise NotFound(
            f"data file {str(path)!r} is gone", hint="run it again when no process changes the files"
        ) from error
    except OSError as error:
        raise StorageError(
            f"cannot read {str(path)!r}: {error.strerror}", hint="give a file that can be read"
        ) from error


def _in_bucket(source: str, home: Storage | None) -> list[SourceFile]:
    bucket, _, key = source.removeprefix("s3://").partition("/")
    return list(_matching(open_near(f"s3://{bucket}", home), key))


def _matching(storage: Storage, key: str) -> Iterator[SourceFile]:
    if key and not key.endswith("/"):
        try:  # first, for a name can have brackets of its own
            yield SourceFile(storage, key, storage.size(key))
        except NotFound:
            pass
        else:
            return
    wild = _WILD.search(key)
    folder = key.rstrip("/") if wild is None else key[: wild.start()].rpartition("/")[0]
    for file in storage.list(folder):
        if file.path.lower().endswith(FORMATS) if wild is None else _pattern(key).fullmatch(file.path):
            yield SourceFile(storage, file.path, file.bytes)


@lru_cache(maxsize=16)
def _pattern(key: str) -> re.Pattern[str]:
    """Return what a glob means: a star stays within a folder, two as a folder's name are any folders."""
    return re.compile(_TOKEN.sub(lambda token: _meaning(token[0]), key), re.DOTALL)


def _meaning(token: str) -> str:
    known = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}
    if token.startswith("[") and len(token) > 1:
        inner = token[1:-1].replace("\\", "\\\\")
        return f"[^{inner[1:]}/]" if inner.startswith("!") else f"[{inner}]"
    return known.get(token) or re.escape(token)
