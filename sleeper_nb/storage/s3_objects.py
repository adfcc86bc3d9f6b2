"""Objects of S3 as files to read, of which no part is ever taken for the whole.

Arrow's own S3 file takes a short answer for a whole one where its ``Content-Length`` was adjusted, and hands out memory
that was never written in place of the rest. So reading goes through boto3: each answer is compared with the range that
was asked for and with the object's size, and counts as lost when it is shorter.
"""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.storage import s3_errors

Ask = Callable[[str, Callable[[Any], Any]], Any]
"""Returns what a function makes of the client, as `S3Connection.ask`."""


def whole(ask: Ask, bucket: str, key: str) -> bytes:
    """Return an object's content.

    It is asked for as a range from its first byte on, since the answer to that has the object's size in a header of
    its own.
    """
    from botocore.exceptions import ClientError

    try:
        content: bytes = ask("GetObject", lambda client: _part(client, bucket, key, "bytes=0-", None))
    except ClientError as error:
        if error.response["Error"]["Code"] not in {"InvalidRange", "416"}:
            raise
        content = ask("GetObject", lambda client: client.get_object(Bucket=bucket, Key=key)["Body"].read())
    return content  # an empty object has no range


def _part(client: Any, bucket: str, key: str, wanted: str, size: int | None) -> bytes:
    """Return a range of an object; of `size` bytes, or all that are left when None."""
    from sleeper_nb.aws.answers import CutAnswer

    answer = client.get_object(Bucket=bucket, Key=key, Range=wanted)
    content = bytes(answer["Body"].read())
    bounds = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.get("ContentRange", ""))
    if size is None and bounds is not None:
        size = int(bounds[3])
    if size is not None and size != len(content):
        raise CutAnswer(operation="GetObject", why=f"{len(content):,} of {size:,} bytes")
    return content


class S3Object(io.RawIOBase):
    """One object, read range by range.

    Parameters
    ----------
    ask
        Makes requests.
    bucket, key
        The object.
    """

    def __init__(self, ask: Ask, bucket: str, key: str) -> None:
        self._ask, self._bucket, self._key, self._at = ask, bucket, key, 0
        self._size = int(ask("HeadObject", lambda client: client.head_object(Bucket=bucket, Key=key))["ContentLength"])

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; fewer than `size` only at the end of the object."""
        left = max(0, self._size - self._at)
        count = left if size is None or size < 0 else min(size, left)
        if not count:
            return b""
        wanted = f"bytes={self._at}-{self._at + count - 1}"
        content = self._explained(wanted, count)
        self._at += count
        return content

    def _explained(self, wanted: str, count: int) -> bytes:
        # Arrow and DuckDB carry the error through their own code, so it is made one of ours here.
        try:
            content: bytes = self._ask(
                "GetObject", lambda client: _part(client, self._bucket, self._key, wanted, count)
            )
        except Exception as error:
            explained = s3_errors.explain(error, f"s3://{self._bucket}/{self._key}", self._bucket, lambda: None)
            raise error if explained is None else explained from error
        return content


class _Readable(fs.FileSystemHandler):  # type: ignore[misc]
    """All buckets, to read objects from; the rest of what Arrow asks of a file system is not needed for that."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def get_type_name(self) -> str:
        return "s3-objects"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, fs.FileType.File) for path in paths]  # the first read finds a missing one

    def open_input_file(self, path: str) -> pa.NativeFile:
        bucket, _, key = path.partition("/")
        return pa.PythonFile(S3Object(self._ask, bucket, key), mode="r")

    open_input_stream = open_input_file

    def _refuse(self, *_arguments: object, **_options: object) -> NoReturn:
        raise OSError(errno.EROFS, "this view of S3 is for reading objects")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


def readable(ask: Ask) -> fs.FileSystem:
    """Return a file system of Arrow over all buckets to read objects from."""
    return fs.PyFileSystem(_Readable(ask))
