"""Servers that are killed and started again at the same address, with what they had stored."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers.dynamodb import dynamodb_at
from tests.servers.server import Server, answers, free_port
from tests.servers.versity import versitygw_at

KEYS = ("testkey", "testsecret")


class Killable:
    """One server.

    Parameters
    ----------
    run
        Runs the server on a port until a block ends.
    """

    def __init__(self, run: Callable[[int], AbstractContextManager[subprocess.Popen[str]]]) -> None:
        self._run, self.port, self._running = run, free_port(), contextlib.ExitStack()
        self.start()

    @property
    def server(self) -> Server:
        """Where it is."""
        return Server(f"http://127.0.0.1:{self.port}", "us-east-1", *KEYS)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        self._process = self._running.enter_context(self._run(self.port))
        assert answers(self._process, self.port), f"the server on port {self.port} did not start"

    def kill(self) -> None:
        """Kill it, as a machine that loses power."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it."""
        self._running.close()


def killable_s3(folder: Path) -> Killable:
    """Run versitygw over a new folder."""
    (folder / "data").mkdir(parents=True)
    return Killable(lambda port: versitygw_at(port, folder))


def killable_dynamodb(folder: Path) -> Killable:
    """Run DynamoDB Local with its database in a new folder."""
    (folder / "database").mkdir(parents=True)
    return Killable(lambda port: dynamodb_at(port, folder, "-dbPath", folder / "database"))
