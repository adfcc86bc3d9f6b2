"""DynamoDB Local from Maven Central, in memory; and catalogs on any DynamoDB server.

Its own main listens on all addresses, so it is started by ours.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session

from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.clock import Clock
from sleeper_nb.model.checksums import checksum_of
from sleeper_nb.storage.aws import AwsTarget
from tests.servers.server import Server, announced_port, build, built, running, tool

VERSION = "2.6.1"

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>sleeper-nb</groupId> <artifactId>test-server</artifactId> <version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.amazonaws</groupId> <artifactId>DynamoDBLocal</artifactId> <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""


def _ready() -> Path:
    java_compiler, maven = tool("javac", "builds DynamoDB Local"), tool("mvn", "fetches DynamoDB Local")
    source = Path(__file__).with_name("LocalDynamo.java")
    with built(f"dynamodb-local-{VERSION}-{checksum_of(source.read_bytes())[:8]}") as (folder, done):
        if not done:
            (folder / "pom.xml").write_text(_POM.format(version=VERSION))
            copy = "dependency:copy-dependencies"
            build([maven, "-q", "-B", "-f", folder / "pom.xml", copy, f"-DoutputDirectory={folder / 'jars'}"])
            build([java_compiler, "-cp", f"{folder / 'jars'}/*", "-d", folder, source])
        return folder


@contextlib.contextmanager
def dynamodb_running(work: Path) -> Iterator[Server]:
    """Run it until the block ends; it has a database of its own for each access key (letters and digits)."""
    with dynamodb_at(0, work, "-inMemory") as process:
        yield Server(f"http://127.0.0.1:{announced_port(process)}", "us-east-1", "testkey", "testsecret")


@contextlib.contextmanager
def dynamodb_at(port: int, work: Path, *options: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run it on a port, or on a free one for 0, which it prints; with options such as ``-dbPath FOLDER``."""
    folder = _ready()
    jars = folder / "jars"
    command = [
        tool("java", "runs DynamoDB Local"), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Djava.library.path={jars}", f"-Dport={port}", "-cp", f"{folder}{os.pathsep}{jars}/*", "LocalDynamo",
        "-disableTelemetry", *options,
    ]  # fmt: skip
    with (work / "log").open("a") as log, running(command, cwd=work, stdout=subprocess.PIPE, stderr=log) as process:
        yield process


def dynamodb_catalog(server: Server, folder: Path, clock: Clock | None = None, **options: Any) -> DynamoDBCatalog:
    """Return a catalog that is the same for everyone who names the folder."""
    for name, value in server.environment().items():
        os.environ.setdefault(name, value)
    # A client reads its description of DynamoDB for a fifth of a second; the many of a test run share one.
    botocore.session.create_loader = _one_loader
    instance = hashlib.sha256(str(folder).encode()).hexdigest()[:20]
    return DynamoDBCatalog(instance, AwsTarget(server.region, server.endpoint_url), clock=clock or Clock(), **options)


_one_loader = functools.cache(botocore.session.create_loader)
