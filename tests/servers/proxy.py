"""An HTTP proxy before a server that cuts, loses, delays and refuses answers, as it is told.

The server has always done what was asked, unless the fate is `refused` or `busy`: a lost answer is one of a request
that counts.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from tests.servers.server import Server

CUTS = ("nothing", "half", "all but the last byte")
LENGTHS = ("kept", "adjusted", "chunked", "none")


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one answer.

    Parameters
    ----------
    kind
        ``cut``: a part of the body arrives; ``reset``: the connection breaks before the answer; ``dropped``: no answer
        comes, and the connection stays; ``refused``: the connection breaks before the server is asked; ``busy``: the
        server is not asked, and the answer is 503 SlowDown; ``delayed``: the request goes to the server late, and its
        answer is late too.
    cut
        How much of the body arrives: one of `CUTS`.
    length
        What the headers of a cut answer say of its length: that of the whole answer, that of the part, that it comes
        in chunks, of which the last is missing, or nothing.
    seconds
        Of a delay.
    """

    kind: str
    cut: str = "half"
    length: str = "kept"
    seconds: float = 0.0


EVERY_CUT = tuple(Fate("cut", cut, length) for cut in CUTS for length in LENGTHS)


def part_of(body: bytes, cut: str) -> bytes:
    """Return the part of a body that arrives."""
    return {"nothing": b"", "half": body[: len(body) // 2], "all but the last byte": body[:-1]}[cut]


Fates = Callable[[int, str, str], Fate | None]
"""Returns what becomes of an answer, from its number since the proxy was told, the method and the target."""


class Proxy:
    """A proxy that runs in threads of this process; `fates` can be replaced at any moment."""

    def __init__(self, server: Server) -> None:
        self._upstream = urlsplit(server.endpoint_url).netloc
        self._lock, self._count = threading.Lock(), 0
        self._fates: Fates = _no_faults
        self.requests: list[str] = []
        """The method and target of each request, since `tell`."""

    def tell(self, fates: Fates | None) -> None:
        """Let answers have other fates from now on, and count from 1 again."""
        with self._lock:
            self._fates, self._count = fates or _no_faults, 0
            self.requests = []

    def fate(self, method: str, target: str) -> Fate | None:
        """Count a request and return what becomes of its answer."""
        with self._lock:
            self._count += 1
            self.requests.append(f"{method} {target}")
            return self._fates(self._count, method, target)

    def answer(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> _Answer:
        """Ask the server."""
        upstream = http.client.HTTPConnection(self._upstream, timeout=60)
        try:
            upstream.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                upstream.putheader(name, value)
            upstream.endheaders(body or None)
            got = upstream.getresponse()
            return _Answer(got.status, got.reason, got.getheaders(), got.read())
        finally:
            upstream.close()


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


_BUSY = _Answer(
    503, "Slow Down", [("Content-Type", "application/xml")],
    b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>",
)  # fmt: skip


def _no_faults(_number: int, _method: str, _target: str) -> None:
    return None


_DROPPED = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length"}


class _Handler(socketserver.StreamRequestHandler):
    """Serves one request on each connection: the next one opens another."""

    timeout = 120

    def handle(self) -> None:
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        words = self.rfile.readline().decode("latin-1").split()
        if len(words) < 3:
            return
        headers = self._headers()
        known = {name.lower(): value for name, value in headers}
        if known.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if known.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunks()
        else:
            body = self.rfile.read(int(known.get("content-length", 0)))
        kept = [(name, value) for name, value in headers if name.lower() not in _DROPPED]
        if body or "content-length" in known or "transfer-encoding" in known:
            kept.append(("Content-Length", str(len(body))))
        fate = proxy.fate(words[0], words[1])
        if fate is not None and fate.kind == "refused":
            self._reset()
            return
        if fate is not None and fate.kind == "busy":
            self._send(words[0], _BUSY, None)
            return
        if fate is not None and fate.kind == "delayed":
            time.sleep(fate.seconds)  # a network that is slow
        self._send(words[0], proxy.answer(words[0], words[1], kept, body), fate)

    def _headers(self) -> list[tuple[str, str]]:
        found = []
        while line := self.rfile.readline().decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            found.append((name, value.strip()))
        return found

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, method: str, answer: _Answer, fate: Fate | None) -> None:
        if fate is not None and fate.kind == "reset":
            self._reset()
            return
        if fate is not None and fate.kind == "dropped":
            with contextlib.suppress(OSError):
                self.connection.settimeout(fate.seconds)
                self.connection.recv(1)  # until the client has no patience left
            self._reset()
            return
        body = answer.body
        length: str | None = {n.lower(): v for n, v in answer.headers}.get("content-length", str(len(body)))
        kept = [(name, value) for name, value in answer.headers if name.lower() not in _DROPPED]
        if fate is not None and fate.kind == "cut" and method != "HEAD":
            body = part_of(body, fate.cut)
            if fate.length != "kept":  # who adjusts the length adjusts the checksum, or has none
                kept = [(name, value) for name, value in kept if "crc32" not in name.lower()]
                length = str(len(body)) if fate.length == "adjusted" else None
            if fate.length == "chunked":
                kept.append(("Transfer-Encoding", "chunked"))
                body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        if length is not None and answer.status not in {204, 304}:
            kept.append(("Content-Length", length))
        head = "".join(f"{name}: {value}\r\n" for name, value in [*kept, ("Connection", "close")])
        with contextlib.suppress(OSError):
            self.wfile.write(f"HTTP/1.1 {answer.status} {answer.reason}\r\n{head}\r\n".encode("latin-1"))
            if method != "HEAD":
                self.wfile.write(body)

    def _reset(self) -> None:
        """Break the connection as a router does that was switched off: without a farewell."""
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            self.connection.close()


class _Listener(socketserver.ThreadingTCPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that have gone."""


@contextlib.contextmanager
def proxied(server: Server) -> Iterator[tuple[Proxy, Server]]:
    """Run a proxy before a server until the block ends; give it, and the server as clients reach it through it."""
    proxy = Proxy(server)
    with _Listener(("127.0.0.1", 0), _Handler) as listener:
        listener.proxy = proxy  # type: ignore[attr-defined]
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield proxy, replace(server, endpoint_url=f"http://127.0.0.1:{listener.server_address[1]}")
        finally:
            listener.shutdown()


def some_of(share: float, seed: int, kinds: tuple[Fate, ...]) -> Fates:
    """Return fates that befall a share of the answers, chosen by a seed."""
    chosen = random.Random(seed)  # noqa: S311 - for tests

    def fate(_number: int, _method: str, _target: str) -> Fate | None:
        return chosen.choice(kinds) if chosen.random() < share else None

    return fate
