"""The DynamoDB in memory as HTTP answers, which can be cut: boto3 signs, sends, checks and parses as with a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ReadTimeoutError

import sleeper_nb as sl
from sleeper_nb.catalog.dynamodb.catalog import DynamoDBCatalog
from sleeper_nb.catalog.dynamodb.client import DynamoDB
from sleeper_nb.clock import Clock
from sleeper_nb.progress import SILENT
from sleeper_nb.storage.aws import AwsTarget, Network
from sleeper_nb.storage.filesystem import Storage
from tests.servers.memory import MemoryDynamoDB
from tests.servers.proxy import CUTS, Fate, part_of

ADDRESS = "http://dynamodb.invalid"
FATES = (*(Fate("cut", cut, length) for cut in CUTS for length in ("kept", "adjusted", "none")), Fate("dropped"))
"""What can become of an answer here; in chunks it comes from real servers alone."""


class Wire:
    """One boto3 client whose requests are answered by `memory`.

    Its making takes a fifth of a second, so that the tests of a module share one.
    """

    def __init__(self) -> None:
        self.memory = MemoryDynamoDB()
        self.fate: Callable[[int], Fate | None] = lambda _: None
        """What becomes of the answer to a request, from its number since `tell`."""
        self.count = 0
        self.operations: list[str] = []
        self.client = DynamoDB(AwsTarget("us-east-1", ADDRESS), Clock()).client()
        self.client.meta.events.register_first("before-send.dynamodb.*", self._answer)

    def tell(self, memory: MemoryDynamoDB, fate: Callable[[int], Fate | None] = lambda _: None) -> None:
        """Answer from another memory, and count from 1 again."""
        self.memory, self.fate, self.count, self.operations = memory, fate, 0, []

    def session(self, folder: Path, clock: Clock, network: Network) -> sl.Session:
        """Open a warehouse whose files are in a folder and whose catalog is here."""
        catalog = DynamoDBCatalog("wire", AwsTarget("us-east-1", ADDRESS), clock=clock, network=network)
        catalog.db.client = lambda: self.client  # type: ignore[method-assign]
        return sl.Session(
            "wire", Storage(folder), catalog, clock=clock, progress=SILENT, author="ann", spark=None, spark_config={}
        )

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        self.count += 1
        operation = request.headers["X-Amz-Target"]
        operation = (operation.decode() if isinstance(operation, bytes) else operation).rpartition(".")[2]
        self.operations.append(operation)
        status = 200
        try:
            answer = getattr(self.memory, xform_name(operation))(**json.loads(request.body))
        except ClientError as error:
            status, said = 400, dict(error.response)
            kind = said.pop("Error")["Code"]  # type: ignore[typeddict-item]
            said.pop("ResponseMetadata", None)
            answer = {"__type": f"com.amazonaws.dynamodb.v20120810#{kind}", "message": kind, **said}
        body = json.dumps(answer).encode()
        headers = {"Content-Length": str(len(body)), "x-amz-crc32": str(crc32(body))}
        fate = self.fate(self.count)
        if fate is not None and fate.kind == "dropped":
            raise ReadTimeoutError(endpoint_url=ADDRESS)
        if fate is not None:
            body = part_of(body, fate.cut)
            if fate.length != "kept":
                headers = {"Content-Length": str(len(body))} if fate.length == "adjusted" else {}
        return AWSResponse(request.url, status, headers, _Body(body))


class _Body:
    """What urllib3 gives."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self._content
