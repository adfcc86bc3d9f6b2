"""The servers of a test run: each starts once, when it is first needed, and ends with the run."""

from __future__ import annotations

import atexit
import functools
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.servers.dynamodb import dynamodb_running
from tests.servers.server import Server, announced_port, running
from tests.servers.versity import versitygw_running

_RUNNING = ExitStack()
atexit.register(_RUNNING.close)


@functools.cache
def moto() -> Server:
    """Return S3 and DynamoDB by moto, which accepts any keys. A process of its own, so no lock of ours can stop it."""
    pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    script = Path(__file__).with_name("moto_process.py")
    process = _RUNNING.enter_context(
        running([sys.executable, "-P", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    )
    return Server(f"http://127.0.0.1:{announced_port(process)}", "us-east-1", "testkey", "testsecret")


@functools.cache
def versitygw() -> Server:
    """Return an S3 server over a folder; the test is skipped where it cannot be built."""
    return _RUNNING.enter_context(versitygw_running(_folder()))


@functools.cache
def dynamodb_local() -> Server:
    """Return DynamoDB Local, in memory; the test is skipped where it cannot be made ready."""
    return _RUNNING.enter_context(dynamodb_running(_folder()))


def _folder() -> Path:
    temporary: AbstractContextManager[str] = tempfile.TemporaryDirectory()
    return Path(_RUNNING.enter_context(temporary))
