"""versitygw: an S3 server over a folder that checks signatures and conditions, built from source by go."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.server import Server, answers, build, built, free_port, running, tool

VERSION = "v1.8.0"
_KEYS = ("testkey", "testsecret")


def _program() -> Path:
    """Return the program: the one on ``PATH``, or one that is built once and kept in the cache folder."""
    if installed := shutil.which("versitygw"):
        return Path(installed)
    with built(f"versitygw-{VERSION}") as (folder, done):
        program = folder / "versitygw"
        if not done:
            # the compiler takes a fifth less CPU when it collects no garbage before the memory is used
            settings = {"GOBIN": str(folder), "CGO_ENABLED": "0", "GOGC": "off", "GOMEMLIMIT": "2GiB"}
            package = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
            go = tool("go", "builds versitygw")
            build([go, "install", "-trimpath", "-ldflags=-s -w", package], env={**os.environ, **settings})
        return program


@contextlib.contextmanager
def versitygw_running(work: Path) -> Iterator[Server]:
    """Run it over the folder `data` until the block ends."""
    (work / "data").mkdir()
    for _ in range(3):  # somebody may take the port between our look and its start
        port = free_port()
        with versitygw_at(port, work) as process:
            if answers(process, port):
                yield Server(f"http://127.0.0.1:{port}", "us-east-1", *_KEYS)
                return
    pytest.fail(f"versitygw did not start: {(work / 'log').read_text()[-500:]}")


@contextlib.contextmanager
def versitygw_at(port: int, work: Path) -> Iterator[subprocess.Popen[str]]:
    """Run it on a port, over the folder `data`."""
    program, keys = _program(), {"ROOT_ACCESS_KEY": _KEYS[0], "ROOT_SECRET_KEY": _KEYS[1]}
    # Connections are not kept alive: some uploads in parts fail otherwise.
    command: list[str | Path] = [
        program,
        "--port",
        f"127.0.0.1:{port}",
        "--region",
        "us-east-1",
        "--quiet",
        "posix",
        work / "data",
    ]
    with (
        (work / "log").open("a") as log,
        running(command, env={**os.environ, **keys}, stdout=log, stderr=log) as process,
    ):
        yield process
