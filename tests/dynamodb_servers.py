"""DynamoDB for tests: moto in this process, and DynamoDB Local from Maven Central; one of each a test run."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.clock import Clock

LOCAL_VERSION = "2.6.1"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>dynamodb</artifactId><version>1</version><dependencies><dependency>
<groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId><version>{LOCAL_VERSION}</version>
</dependency></dependencies></project>
"""
# Its own main listens on every interface and refuses port 0; this one sets both on the connector before it starts.
_MAIN = """
import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
public class Local {
  public static void main(String[] args) throws Exception {
    var proxy = ServerRunner.createServerFromCommandLineArgs(args);
    var field = proxy.getClass().getDeclaredField("server");
    field.setAccessible(true);
    var connector = (ServerConnector) ((Server) field.get(proxy)).getConnectors()[0];
    connector.setHost("127.0.0.1");
    connector.setPort(0);
    proxy.start();
    System.out.println("PORT " + connector.getLocalPort());
    System.out.flush();
    proxy.join();
  }
}
"""


@functools.cache
def moto_endpoint() -> str:
    """Return the address of moto's DynamoDB.

    It does one request at a time: its transactions are not safe against one another. So a race is run for real on
    DynamoDB Local only.
    """
    import botocore.session
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    answer, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def one_at_a_time(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with turn:
            return list(answer(environ, start_response))

    # A client reads its description of DynamoDB for a fifth of a second; the many of a test run share one.
    botocore.session.create_loader = functools.cache(botocore.session.create_loader)
    server = make_server("127.0.0.1", 0, one_at_a_time, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


@functools.cache
def dynamodb_local_endpoint() -> str:
    """Return the address of a DynamoDB Local in memory; the test is skipped where it cannot be started."""
    if missing := [tool for tool in ("mvn", "javac", "java") if shutil.which(tool) is None]:
        pytest.skip(f"DynamoDB Local needs {', '.join(missing)}")
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sleeper-nb-tests" / LOCAL_VERSION
    if not (home / "Local.class").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "pom.xml").write_text(_POM)
        (home / "Local.java").write_text(_MAIN)
        fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"]
        for command in (fetch, ["javac", "-cp", "lib/*", "Local.java"]):
            done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"DynamoDB Local cannot be made ready: {' '.join(command[:2])}: {done.stderr[-300:]}")
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", f"-Djava.library.path={home / 'lib'}"]
    command += ["-cp", f"{home}:{home / 'lib'}/*", "Local", "-inMemory", "-disableTelemetry"]
    folder = tempfile.mkdtemp()  # it writes a file where it runs
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("PORT "):
            threading.Thread(target=server.stdout.read, daemon=True).start()
            return f"http://127.0.0.1:{line.split()[1]}"
    pytest.skip("DynamoDB Local did not start")


def dynamodb_catalog(endpoint: str, folder: Path, clock: Clock | None = None, **options: Any) -> DynamoDBCatalog:
    """Return a catalog that is the same for everyone who names the folder."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "testing")
    instance = hashlib.sha256(str(folder).encode()).hexdigest()[:20]
    return DynamoDBCatalog(instance, region="us-east-1", endpoint_url=endpoint, clock=clock or Clock(), **options)
