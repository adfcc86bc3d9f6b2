"""What a running server is to a test, and how processes of servers are started and ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.engines.cache_folder import cache_folder

START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Server:
    """A server on this machine, and keys that it accepts."""

    endpoint_url: str
    region: str
    access_key: str
    secret_key: str

    def environment(self) -> dict[str, str]:
        """Return the variables by which AWS clients find the keys here and nowhere else."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def new_bucket(self) -> str:
        """Make a bucket that no other test knows, and return its name."""
        name = f"test-{uuid.uuid4().hex}"
        self.client("s3").create_bucket(Bucket=name)
        return name

    def client(self, service: str) -> Any:
        """Return a boto3 client of ``s3`` or ``dynamodb``."""
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.endpoint_url,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )


@contextlib.contextmanager
def running(command: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a server until the block ends. Its standard input ends with us, however we end."""
    process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def announced_port(process: subprocess.Popen[str]) -> int:
    """Return the port that a server prints as its first line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip().isdigit(), f"the server did not start: {line!r}"
    return int(line)


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(process: subprocess.Popen[str], port: int) -> bool:
    """Wait until a server takes connections; False when it ended instead."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return process.poll() is None
        time.sleep(0.02)
    return False


def tool(name: str, why: str) -> str:
    """Return where a program is, or skip the test that needs it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: it {why}")
    return found


@contextlib.contextmanager
def built(name: str) -> Iterator[tuple[Path, bool]]:
    """Give the cache folder of a server, and whether it is built; a block that ends well has built it."""
    folder = cache_folder() / "servers" / name
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "built"
    with (folder / "lock").open("w") as lock:  # two test processes may start at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder, done.exists()
        done.touch()


def build(command: Sequence[str | Path], **options: Any) -> None:
    """Run one step of a build; when it fails, skip the test and say why."""
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    if ran.returncode:
        last = (ran.stderr.strip() or ran.stdout.strip() or "no output").splitlines()[-1]
        pytest.skip(f"{Path(command[0]).name} failed: {last[:200]}")
