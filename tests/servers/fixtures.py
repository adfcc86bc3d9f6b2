"""The fixtures ``moto``, ``versitygw`` and ``dynamodb_local``: each starts once per test process, when needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.dynamodb import dynamodb_running
from tests.servers.server import Server, announced_port, running
from tests.servers.versity import versitygw_running


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "servers: needs go, or Java and Maven, for a real server; skipped without them")


@pytest.fixture(scope="session")
def moto() -> Iterator[Server]:
    """S3 and DynamoDB by moto, which accepts any keys. A process of its own, so no lock of ours can stop it."""
    pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    script = Path(__file__).with_name("moto_process.py")
    with running([sys.executable, "-P", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield Server(f"http://127.0.0.1:{announced_port(process)}", "us-east-1", "testkey", "testsecret")


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with versitygw_running(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with dynamodb_running(tmp_path_factory.mktemp("dynamodb")) as server:
        yield server


@pytest.fixture(params=["moto", pytest.param("versitygw", marks=pytest.mark.servers)])
def s3_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Each S3 server in turn; its keys are in the environment, and no others can be found."""
    server: Server = request.getfixturevalue(request.param)
    use(server, monkeypatch)
    return server


def use(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let AWS clients find a server's keys, and nothing else."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
