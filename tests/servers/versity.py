"""versitygw: an S3 server over a folder that checks signatures and conditions, built from source by go."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.server import Server, answers, build, built, free_port, running, tool

VERSION = "v1.8.0"
_KEYS = ("testkey", "testsecret")


def _program() -> Path:
    with built(f"versitygw-{VERSION}") as (folder, done):
        program = folder / "versitygw"
        if not done:
            settings = {"GOBIN": str(folder), "CGO_ENABLED": "0"}
            package = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
            go = tool("go", "builds versitygw")
            build([go, "install", "-trimpath", "-ldflags=-s -w", package], env={**os.environ, **settings})
        return program


@contextlib.contextmanager
def versitygw_running(work: Path) -> Iterator[Server]:
    """Run it over the folder `data` until the block ends."""
    program, data = _program(), work / "data"
    data.mkdir()
    keys = {"ROOT_ACCESS_KEY": _KEYS[0], "ROOT_SECRET_KEY": _KEYS[1]}
    with (work / "log").open("w") as log:
        for _ in range(3):  # somebody may take the port between our look and its start
            port = free_port()
            # Connections are not kept alive: some uploads in parts fail otherwise.
            command = [program, "--port", f"127.0.0.1:{port}", "--region", "us-east-1", "--quiet", "posix", data]
            with running(command, env={**os.environ, **keys}, stdout=log, stderr=log) as process:
                if answers(process, port):
                    yield Server(f"http://127.0.0.1:{port}", "us-east-1", *_KEYS)
                    return
    pytest.fail(f"versitygw did not start: {(work / 'log').read_text()[-500:]}")
