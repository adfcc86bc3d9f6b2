"""DynamoDB Local from Maven Central, in memory. Its own main listens on all addresses, so it is started by ours."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

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
    with built(f"dynamodb-local-{VERSION}") as (folder, done):
        if not done:
            (folder / "pom.xml").write_text(_POM.format(version=VERSION))
            copy = "dependency:copy-dependencies"
            build([maven, "-q", "-B", "-f", folder / "pom.xml", copy, f"-DoutputDirectory={folder / 'jars'}"])
            source = Path(__file__).with_name("LocalDynamo.java")
            build([java_compiler, "-cp", f"{folder / 'jars'}/*", "-d", folder, source])
        return folder


@contextlib.contextmanager
def dynamodb_running(work: Path) -> Iterator[Server]:
    """Run it until the block ends; it has a database of its own for each access key (letters and digits)."""
    folder = _ready()
    jars = folder / "jars"
    command = [
        tool("java", "runs DynamoDB Local"), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Djava.library.path={jars}", "-cp", f"{folder}{os.pathsep}{jars}/*", "LocalDynamo",
        "-inMemory", "-disableTelemetry",
    ]  # fmt: skip
    with (work / "log").open("w") as log, running(command, cwd=work, stdout=subprocess.PIPE, stderr=log) as process:
        yield Server(f"http://127.0.0.1:{announced_port(process)}", "us-east-1", "testkey", "testsecret")
