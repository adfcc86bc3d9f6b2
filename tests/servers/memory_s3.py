"""S3 in the memory of this process, over HTTP, which counts requests and bytes: the clients are boto3's and Arrow's.

It knows what the package asks: objects, ranges, multipart uploads, lists and bulk deletion; neither permissions nor
versions.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.servers.server import Server

_TIME, _HTTP_TIME = "2026-01-01T00:00:00.000Z", "Thu, 01 Jan 2026 00:00:00 GMT"
CHEAP = ("GET", "HEAD")
"""The methods that S3 prices as a GET; a list is a GET that it prices as a PUT."""


@dataclass(slots=True)
class S3Requests:
    """What a server was asked since the last `take`.

    Parameters
    ----------
    counts
        Requests by kind: ``PUT`` and ``POST`` by method, ``LIST``, ``GET``, ``HEAD`` and ``DELETE``.
    sent, received
        Bytes of bodies to the server, and from it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0


class MemoryS3:
    """The objects by ``bucket/key``, and what was asked."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()
        self._asked = S3Requests()

    def note(self, kind: str, sent: int, received: int) -> None:
        """Count a request."""
        with self.lock:
            self._asked.counts[kind] += 1
            self._asked.sent += sent
            self._asked.received += received

    def take(self) -> S3Requests:
        """Return what was asked since the last call."""
        with self.lock:
            asked, self._asked = self._asked, S3Requests()
        return asked


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    s3: MemoryS3

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _path(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return unquote(parts.path).strip("/"), query

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b"".join(iter(self._chunk, b""))
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return _unsigned(body) if "aws-chunked" in self.headers.get("Content-Encoding", "") else body

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        chunk = self.rfile.read(size)
        if size:
            self.rfile.readline()
        return chunk

    def _answer(
        self, code: int, body: bytes = b"", headers: Mapping[str, str] | None = None, *, kind: str = "", sent: int = 0
    ) -> None:
        self.s3.note(kind or self.command, sent, len(body))
        self.send_response(code)
        for name, value in (headers or {"Content-Type": "application/xml"}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def do_GET(self) -> None:
        path, query = self._path()
        if "list-type" in query:
            self._list(path, query)
        elif path in self.s3.objects:
            self._object(path)
        else:
            self._refuse(404, "NoSuchKey")

    def do_HEAD(self) -> None:
        path, _ = self._path()
        content = self.s3.objects.get(path)
        if content is None and "/" in path:
            self._answer(404)
            return
        self._answer(200, headers={**_headers(content or b""), "Content-Length": str(len(content or b""))})

    def _object(self, path: str) -> None:
        content = self.s3.objects[path]
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self._answer(200, content, _headers(content))
            return
        first = int(wanted[1]) if wanted[1] else max(0, len(content) - int(wanted[2]))
        last = min(int(wanted[2]), len(content) - 1) if wanted[1] and wanted[2] else len(content) - 1
        if first > last:
            self._refuse(416, "InvalidRange")
            return
        bounds = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        self._answer(206, content[first : last + 1], {**_headers(content), **bounds})

    def _list(self, bucket: str, query: Mapping[str, str]) -> None:
        prefix, limit = query.get("prefix", ""), query.get("delimiter", "")
        whole = f"{bucket}/"
        entries = {}
        for path in sorted(each for each in self.s3.objects if each.startswith(whole + prefix)):
            key = path.removeprefix(whole)
            rest = key.removeprefix(prefix)
            folder = f"{prefix}{rest.partition(limit)[0]}{limit}" if limit and limit in rest else ""
            entries[folder or key] = None if folder else self.s3.objects[path]
        after, most = query.get("continuation-token", ""), int(query.get("max-keys") or 1000)
        names = [name for name in entries if name > after]
        shown = "".join(_listed(name, entries[name]) for name in names[:most])
        more = len(names) > most
        token = f"<NextContinuationToken>{escape(names[most - 1])}</NextContinuationToken>" if more and most else ""
        facts = f"<IsTruncated>{str(more).lower()}</IsTruncated><KeyCount>{len(names[:most])}</KeyCount>"
        body = f"<ListBucketResult>{facts}<MaxKeys>{most}</MaxKeys>{token}{shown}</ListBucketResult>"
        self._answer(200, body.encode(), kind="LIST")

    def do_PUT(self) -> None:
        path, query = self._path()
        body = self._body()
        if "partNumber" in query:
            self.s3.uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, headers=_headers(body) | {"Content-Length": "0"}, sent=len(body))
            return
        with self.s3.lock:
            taken = self.headers.get("If-None-Match") == "*" and path in self.s3.objects
            if not taken and "/" in path:
                self.s3.objects[path] = body
        if taken:
            self._refuse(412, "PreconditionFailed")
            return
        self._answer(200, headers=_headers(body) | {"Content-Length": "0"}, sent=len(body))

    def do_POST(self) -> None:
        path, query = self._path()
        body = self._body()
        if "uploads" in query:
            name = f"upload-{len(self.s3.uploads)}-{threading.get_ident()}"
            self.s3.uploads[name] = {}
            answer = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
        elif "uploadId" in query:
            parts = self.s3.uploads.pop(query["uploadId"])
            self.s3.objects[path] = b"".join(parts[number] for number in sorted(parts))
            answer = '<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>'
        else:  # a bulk deletion
            for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                self.s3.objects.pop(f"{path}/{key}", None)
            answer = "<DeleteResult></DeleteResult>"
        self._answer(200, answer.encode(), sent=len(body))

    def do_DELETE(self) -> None:
        path, query = self._path()
        if "uploadId" in query:
            self.s3.uploads.pop(query["uploadId"], None)
        else:
            self.s3.objects.pop(path, None)
        self._answer(204)


def _headers(content: bytes) -> dict[str, str]:
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return {"ETag": f'"{digest}"', "Last-Modified": _HTTP_TIME, "Accept-Ranges": "bytes"}


def _listed(name: str, content: bytes | None) -> str:
    if content is None:
        return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
    return (
        f"<Contents><Key>{escape(name)}</Key><LastModified>{_TIME}</LastModified><ETag>&quot;0&quot;</ETag>"
        f"<Size>{len(content)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )


def _unsigned(body: bytes) -> bytes:
    """Return the content of a body in signed chunks, as AWS encodes a stream."""
    content, rest = b"", body
    while rest:
        line, _, rest = rest.partition(b"\r\n")
        size = int(line.split(b";")[0] or b"0", 16)
        if not size:
            break
        content, rest = content + rest[:size], rest[size + 2 :]
    return content


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def memory_s3() -> Iterator[tuple[MemoryS3, Server]]:
    """Run a server until the block ends."""
    s3 = MemoryS3()
    handler = type("_Of", (_Handler,), {"s3": s3})
    with _Quiet(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield s3, Server(f"http://127.0.0.1:{http.server_address[1]}", "us-east-1", "test", "test")
        finally:
            http.shutdown()
            thread.join()
