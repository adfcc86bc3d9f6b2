"""The fixtures ``moto``, ``versitygw``, ``dynamodb_local`` and ``s3_server``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import pytest

from tests.servers import once
from tests.servers.server import Server


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "servers: needs go, or Java and Maven, for a real server; skipped without them")


@pytest.fixture(scope="session", autouse=True)
def aws_models_are_read_once() -> Iterator[None]:
    """Without it each session of boto3 reads megabytes of JSON, and the tests make thousands."""
    from botocore.loaders import JSONFileLoader

    read = cache(JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _loader, path: read(path))
        yield


@pytest.fixture(scope="session")
def moto() -> Server:
    return once.moto()


@pytest.fixture(scope="session")
def versitygw() -> Server:
    return once.versitygw()


@pytest.fixture(scope="session")
def dynamodb_local() -> Server:
    return once.dynamodb_local()


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
