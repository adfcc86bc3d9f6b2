"""A bucket's prefix as a place of files: boto3 for single requests, Arrow for streams of bytes.

Both, because each does what the other does not. Arrow reads and writes large objects in parallel, without Python's
lock. But its delete leaves an empty object for the folder, its listing of a bucket that is not there is empty, and it
knows fewer kinds of AWS profiles: so single requests and credentials are boto3's, which the DynamoDB catalog uses too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.aws.network import Network
from sleeper_nb.errors import SleeperError
from sleeper_nb.storage import s3_errors, s3_objects
from sleeper_nb.storage.places import S3Access, StoredFile

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

_T = TypeVar("_T")

ARROW_TRIES = 4
"""How often Arrow tries one request, with growing waits: some seconds in all when a server cannot be reached."""
CONNECT_SECONDS = 5
READ_SECONDS = 20
"""How long a server may take to begin its answer to one request."""


class S3Connection:
    """One way to S3 for all buckets: region, server and keys, found when they are first needed.

    Parameters
    ----------
    region
        As boto3 finds it when None; ``us-east-1`` when it finds none.
    endpoint_url
        The server; as boto3 finds it when None.
    network
        Bounds how often requests are made again, and shows it; one of its own when None.
    """

    def __init__(
        self, *, region: str | None = None, endpoint_url: str | None = None, network: Network | None = None
    ) -> None:
        self._asked, self.network = (region, endpoint_url), network or Network()
        self._lock = threading.Lock()
        self._client: Any = None
        self._session: Any = None
        self._filesystem: tuple[ReadOnlyCredentials, fs.S3FileSystem] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # Keys stay where they are: another process finds its own.
        return _connection, self._asked

    @property
    def client(self) -> Any:
        """The boto3 client."""
        with self._lock:
            if self._client is None:
                import boto3
                from botocore.config import Config

                from sleeper_nb.aws.answers import refuse_cut_answers

                self._session = boto3.Session()
                region = self._asked[0] or self._session.region_name or os.environ.get("AWS_REGION") or "us-east-1"
                config = Config(
                    retries={"total_max_attempts": 1},  # `ask` makes requests again, and shows it
                    connect_timeout=CONNECT_SECONDS,
                    read_timeout=READ_SECONDS,
                    max_pool_connections=32,
                )
                self._client = self._session.client(
                    "s3", region_name=region, endpoint_url=self._asked[1], config=config
                )
                refuse_cut_answers(self._client)
            return self._client

    def ask(self, operation: str, send: Callable[[Any], _T]) -> _T:
        """Return what `send` makes of the client; made again when the answer is lost or S3 is busy."""
        answer: _T = self.network.ask(f"S3 {operation}", lambda: send(self.client), s3_errors.judge, _raise)
        return answer

    def access(self, bucket: str) -> S3Access:
        """Return what others need to open a bucket now; temporary keys are renewed first."""
        keys = self._keys()
        return S3Access(
            bucket, self.client.meta.region_name, self.endpoint_url, keys.access_key, keys.secret_key, keys.token
        )

    @property
    def endpoint_url(self) -> str | None:
        """The server when it is not Amazon's own."""
        url = str(self.client.meta.endpoint_url)
        host = urlsplit(url).hostname or ""
        return None if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else url

    @property
    def filesystem(self) -> fs.S3FileSystem:
        """Arrow's file system over all buckets, with keys that are good now."""
        keys, region, endpoint_url = self._keys(), self.client.meta.region_name, self.endpoint_url
        with self._lock:
            if self._filesystem is None or self._filesystem[0] != keys:
                made = fs.S3FileSystem(
                    access_key=keys.access_key,
                    secret_key=keys.secret_key,
                    session_token=keys.token,
                    region=region,
                    endpoint_override=endpoint_url,
                    connect_timeout=CONNECT_SECONDS,
                    request_timeout=READ_SECONDS,
                    retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ARROW_TRIES),
                    # A small file is one request then, not the three of an upload in parts.
                    allow_delayed_open=True,
                )
                self._filesystem = keys, made
            return self._filesystem[1]

    def _keys(self) -> ReadOnlyCredentials:
        from botocore.exceptions import NoCredentialsError

        assert self.client is not None  # noqa: S101 - asking for it makes the session
        credentials = self._session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        return credentials.get_frozen_credentials()


def _raise(error: Exception, tries: int) -> Any:  # noqa: ARG001 - the count of tries is of no use to a user here
    raise error


def _connection(region: str | None, endpoint_url: str | None) -> S3Connection:
    return S3Connection(region=region, endpoint_url=endpoint_url)


class S3Place:
    """A prefix in a bucket; prefixes need not be made."""

    local = False

    def __init__(self, connection: S3Connection, bucket: str, key: str = "") -> None:
        self.connection, self.bucket, self.key = connection, bucket, key
        self.prefix = f"{bucket}/{key}" if key else bucket
        self.root = f"s3://{self.prefix}"

    @property
    def filesystem(self) -> fs.FileSystem:  # noqa: D102 - the contract is in `Place`, here and below
        return self.connection.filesystem

    @property
    def readable(self) -> fs.FileSystem:  # noqa: D102
        return s3_objects.readable(self.connection.ask)

    @property
    def access(self) -> S3Access:  # noqa: D102
        return self.connection.access(self.bucket)

    @property
    def network(self) -> Network:  # noqa: D102
        return self.connection.network

    def below(self, folder: str) -> S3Place:  # noqa: D102
        return S3Place(self.connection, self.bucket, self._at(folder))

    def create(self, path: str) -> pa.NativeFile:  # noqa: D102
        return self.filesystem.open_output_stream(f"{self.prefix}/{path}")

    def keep(self, path: str) -> None:
        """Do nothing: an object that was closed is there for good."""

    def whole(self, path: str) -> bytes:  # noqa: D102
        return s3_objects.whole(self.connection.ask, self.bucket, self._at(path))

    def put(self, path: str, content: bytes) -> bool:  # noqa: D102
        self.connection.ask(
            "PutObject", lambda client: client.put_object(Bucket=self.bucket, Key=self._at(path), Body=content)
        )
        return True

    def put_new(self, path: str, content: bytes) -> bool:  # noqa: D102
        from botocore.exceptions import ClientError

        request = {"Bucket": self.bucket, "Key": self._at(path), "Body": content, "IfNoneMatch": "*"}
        try:
            self.connection.ask("PutObject", lambda client: client.put_object(**request))
        except ClientError as error:
            # the second: another request for the same key was under way, and which of them counts is not told
            if error.response["Error"]["Code"] in {"PreconditionFailed", "ConditionalRequestConflict"}:
                return False
            raise
        return True

    def size(self, path: str) -> int:  # noqa: D102
        head = self.connection.ask(
            "HeadObject", lambda client: client.head_object(Bucket=self.bucket, Key=self._at(path))
        )
        return int(head["ContentLength"])

    def files(self, folder: str) -> list[StoredFile]:  # noqa: D102
        top = f"{self._at(folder)}/" if folder or self.key else ""
        cut = len(self.key) + 1 if self.key else 0
        return [
            StoredFile(found["Key"][cut:], int(found["Size"]), found["LastModified"])
            for page in self._pages(top)
            for found in page.get("Contents", ())
            if not found["Key"].endswith("/")  # an empty object by which other tools mark a folder
        ]

    def folders(self, folder: str) -> list[str]:  # noqa: D102
        top = f"{self._at(folder)}/" if folder or self.key else ""
        prefixes = (found["Prefix"] for page in self._pages(top, "/") for found in page.get("CommonPrefixes", ()))
        return [prefix[len(top) : -1] for prefix in prefixes]

    def _pages(self, prefix: str, delimiter: str = "") -> Iterator[dict[str, Any]]:
        request = {"Bucket": self.bucket, "Prefix": prefix, **({"Delimiter": delimiter} if delimiter else {})}
        while True:
            page = self.connection.ask("ListObjectsV2", lambda client: client.list_objects_v2(**request))
            yield page
            if not page["IsTruncated"]:
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, path: str) -> None:  # noqa: D102
        self.connection.ask("DeleteObject", lambda client: client.delete_object(Bucket=self.bucket, Key=self._at(path)))

    def delete_all(self, folder: str) -> None:  # noqa: D102
        for page in self._pages(f"{self._at(folder)}/"):
            keys = [found["Key"] for found in page.get("Contents", ())]  # a request takes as many as a page has
            if keys:
                self._delete_each(keys)

    def _delete_each(self, keys: list[str]) -> None:
        wanted = {"Objects": [{"Key": key} for key in keys]}
        answer = self.connection.ask(
            "DeleteObjects", lambda client: client.delete_objects(Bucket=self.bucket, Delete=wanted)
        )
        failed = answer.get("Errors", ())
        if failed:
            raise OSError(f"{len(failed)} objects were not deleted: {failed[0]['Key']}: {failed[0]['Message']}")
        left = {*keys} - {done["Key"] for done in answer.get("Deleted", ())}
        if left:
            raise OSError(f"S3 did not say that it deleted {len(left)} objects: {min(left)}")

    def explain(self, error: Exception, located: str) -> SleeperError | None:  # noqa: D102
        return s3_errors.explain(error, located, self.bucket, self._list_one)

    def _list_one(self) -> None:
        """Ask something whose answer has a body, and so says what is wrong with the bucket or the keys."""
        self.connection.ask("ListObjectsV2", lambda client: client.list_objects_v2(Bucket=self.bucket, MaxKeys=1))

    def _at(self, path: str) -> str:
        return "/".join(part for part in (self.key, path) if part)
