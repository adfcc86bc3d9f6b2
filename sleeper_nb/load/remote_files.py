"""Files of the web: download what the user named by its address, so that it is read like a local file."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import re
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from sleeper_nb.errors import (
    FREE_SPACE,
    DiskFull,
    InvalidInput,
    NetworkError,
    NotFound,
    StorageError,
)
from sleeper_nb.load.source_files import SOURCE_ENDINGS, SPREADSHEET_ENDINGS, SourceFile
from sleeper_nb.progress import SILENT, Progress
from sleeper_nb.storage.filesystem import Storage

logger = logging.getLogger(__name__)

MOST_BYTES = 16 << 30
"""Larger files are not downloaded: a user wants to keep them."""
_BLOCK_BYTES = 1 << 20
_SECONDS = 60
"""How long a server may take to answer, and to send each next part."""
_ENDINGS = {
    "text/csv": ".csv", "application/csv": ".csv", "text/tab-separated-values": ".tsv", "application/json": ".json",
    "application/x-ndjson": ".jsonl", "application/jsonl": ".jsonl", "application/vnd.apache.parquet": ".parquet",
}  # fmt: skip
"""The endings of content types, for addresses whose names have none."""
_BY_CONTENT = frozenset({
    "text/plain", "application/octet-stream", "binary/octet-stream", "application/gzip", "application/zip",
    "application/x-zip-compressed", "application/zstd",
})  # fmt: skip
"""Content types that do not say the format, which is found in the file then."""


def is_web_address(source: object) -> bool:
    """Return whether a source is the address of a file of the web."""
    return isinstance(source, str) and re.match(r"https?://", source, re.IGNORECASE) is not None


@contextlib.contextmanager
def downloads(progress: Progress = SILENT, most_bytes: int = MOST_BYTES) -> Iterator[Downloads]:
    """Yield what downloads files; they are deleted at the end."""
    with contextlib.ExitStack() as stack:
        yield Downloads(stack, progress, most_bytes)


@dataclass
class Downloads:
    """Downloads files of the web to a folder of its own, made for the first of them.

    Parameters
    ----------
    stack
        Deletes the folder.
    progress
        Shows how much of a file has come.
    most_bytes
        The largest file that is downloaded.
    """

    stack: contextlib.ExitStack
    progress: Progress = SILENT
    most_bytes: int = MOST_BYTES
    _folder: list[Path] = field(default_factory=list)

    def file(self, address: str) -> SourceFile:
        """Download the file at an address.

        Raises
        ------
        InvalidInput
            When the address is not of a data file, or the file is too large.
        NotFound
            When the server has no such file.
        NetworkError
            When the server does not answer, refuses, or stops early.
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
        folder = self._new_folder()
        self._check_size(length, shown, folder)
        path = folder / name
        is_packed = answer.headers.get("Content-Encoding", "").lower() == "gzip"
        stream = gzip.GzipFile(fileobj=answer) if is_packed else answer
        size = self._copied(stream, path, shown, 0 if is_packed else length)
        if length and not is_packed and size < length:
            hint = "run it again; or download the file, and give its path"
            raise NetworkError(f"{shown} ended after {size:,} of {length:,} bytes", hint=hint)
        logger.info("downloaded %s: %d bytes", shown, size)
        return SourceFile(Storage(folder), name, size, web=shown)

    def _new_folder(self) -> Path:
        if not self._folder:
            self._folder.append(Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="sleeper-"))))
        return Path(tempfile.mkdtemp(dir=self._folder[0]))

    def _check_size(self, size: int, shown: str, folder: Path) -> None:
        if size > self.most_bytes:
            hint = "download it yourself, and give its path"
            raise InvalidInput(f"{shown} has {_text(size)}; at most {_text(self.most_bytes)} are downloaded", hint=hint)
        if size > shutil.disk_usage(folder).free:
            raise DiskFull(f"no space left for {shown}: it has {_text(size)}", hint=FREE_SPACE)

    def _copied(self, stream: Any, path: Path, shown: str, length: int) -> int:
        size, of_all = 0, f" of {_text(length)}" if length else ""
        try:
            with path.open("wb") as file:
                while block := stream.read(_BLOCK_BYTES):
                    file.write(block)
                    size += len(block)
                    if not length:
                        self._check_size(size, shown, path.parent)
                    self.progress.update(f"downloading {path.name}: {_text(size)}{of_all}")
        except (EOFError, gzip.BadGzipFile) as error:
            raise NetworkError(f"{shown} ended early", hint="run it again") from error
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
    """Return a name for a downloaded file, whose ending says its format; `InvalidInput` when nothing says it."""
    content = answer.headers.get_content_type()
    names = [answer.headers.get_filename() or "", unquote(PurePosixPath(urlsplit(shown).path).name),
             unquote(PurePosixPath(urlsplit(answer.url).path).name)]  # fmt: skip
    known = (*SOURCE_ENDINGS, *SPREADSHEET_ENDINGS)
    name = next((name for name in names if name.lower().endswith(known)), "")
    if not name and content in _ENDINGS:
        name = f"{next(filter(None, names), 'data')}{_ENDINGS[content]}"
    if not name and content in _BY_CONTENT:
        name = next(filter(None, names), "data")
    if content == "text/html" or not name:
        what = "is a web page, not a data file" if content == "text/html" else f"is of the unknown type {content}"
        hint = "give the address of the file itself; a table in a page: pandas.read_html(address)[0]"
        raise InvalidInput(f"{shown} {what}", hint=hint)
    return re.sub(r"[^\w.-]", "_", name)[-100:]


def _refused(error: urllib.error.HTTPError, shown: str) -> StorageError | NotFound:
    if error.code in {404, 410}:
        return NotFound(f"no file at {shown}", hint="check the address")
    hint = "run it again later; or download the file, and give its path"
    if error.code in {401, 403, 407}:
        hint = "download the file with your login, and give its path"
    return NetworkError(f"cannot download {shown}: the server answered {error.code} {error.reason}", hint=hint)
