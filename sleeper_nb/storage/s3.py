"""A bucket's prefix as a place of files: boto3 for single requests, Arrow for streams of bytes.

Both, because each does what the other does not. Arrow reads and writes large objects in parallel, without Python's
lock. But its delete leaves an empty object for the folder, its listing of a bucket that is not there is empty, and it
knows fewer kinds of AWS profiles: so single requests and credentials are boto3's, which the DynamoDB catalog uses too.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.errors import SleeperError
from sleeper_nb.storage.places import S3Access, StoredFile

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

TRIES = 4
"""How often one request is tried, with growing waits: some seconds in all when a server cannot be reached."""
CONNECT_SECONDS = 5
READ_SECONDS = 60


class S3Connection:
    """One way to S3 for all buckets: region, server and keys, found when they are first needed.

    Parameters
    ----------
    region
        As boto3 finds it when None; ``us-east-1`` when it finds none.
    endpoint_url
        The server; as boto3 finds it when None.
    """

    def __init__(self, *, region: str | None = None, endpoint_url: str | None = None) -> None:
        self._asked = (region, endpoint_url)
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

                self._session = boto3.Session()
                region = self._asked[0] or self._session.region_name or os.environ.get("AWS_REGION") or "us-east-1"
                config = Config(
                    retries={"mode": "standard", "total_max_attempts": TRIES},
                    connect_timeout=CONNECT_SECONDS,
                    read_timeout=READ_SECONDS,
                    max_pool_connections=32,
                )
                self._client = self._session.client(
                    "s3", region_name=region, endpoint_url=self._asked[1], config=config
                )
            return self._client

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
                    retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
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
    def access(self) -> S3Access:  # noqa: D102
        return self.connection.access(self.bucket)

    def below(self, folder: str) -> S3Place:  # noqa: D102
        return S3Place(self.connection, self.bucket, self._at(folder))

    def create(self, path: str) -> pa.NativeFile:  # noqa: D102
        return self.filesystem.open_output_stream(f"{self.prefix}/{path}")

    def keep(self, path: str) -> None:
        """Do nothing: an object that was closed is there for good."""

    def put(self, path: str, content: bytes) -> bool:  # noqa: D102
        self.connection.client.put_object(Bucket=self.bucket, Key=self._at(path), Body=content)
        return True

    def put_new(self, path: str, content: bytes) -> bool:  # noqa: D102
        from botocore.exceptions import ClientError

        try:
            self.connection.client.put_object(Bucket=self.bucket, Key=self._at(path), Body=content, IfNoneMatch="*")
        except ClientError as error:
            # the second: another request for the same key was under way, and which of them counts is not told
            if error.response["Error"]["Code"] in {"PreconditionFailed", "ConditionalRequestConflict"}:
                return False
            raise
        return True

    def size(self, path: str) -> int:  # noqa: D102
        return int(self.connection.client.head_object(Bucket=self.bucket, Key=self._at(path))["ContentLength"])

    def files(self, folder: str) -> list[StoredFile]:  # noqa: D102
        top = f"{self._at(folder)}/" if folder or self.key else ""
        cut = len(self.key) + 1 if self.key else 0
        pages = self.connection.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=top)
        return [
            StoredFile(found["Key"][cut:], int(found["Size"]), found["LastModified"])
            for page in pages
            for found in page.get("Contents", ())
            if not found["Key"].endswith("/")  # an empty object by which other tools mark a folder
        ]

    def delete(self, path: str) -> None:  # noqa: D102
        self.connection.client.delete_object(Bucket=self.bucket, Key=self._at(path))

    def delete_all(self, folder: str) -> None:  # noqa: D102
        client, prefix = self.connection.client, f"{self._at(folder)}/"
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            objects = [{"Key": found["Key"]} for found in page.get("Contents", ())]  # a request takes as many as a page
            failed = objects and client.delete_objects(
                Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True}
            ).get("Errors")
            if failed:
                raise OSError(f"{len(failed)} objects were not deleted: {failed[0]['Key']}: {failed[0]['Message']}")

    def explain(self, error: Exception, located: str) -> SleeperError | None:  # noqa: D102
        from sleeper_nb.storage import s3_errors

        return s3_errors.explain(error, located, self.bucket, self._list_one)

    def _list_one(self) -> None:
        """Ask something whose answer has a body, and so says what is wrong with the bucket or the keys."""
        self.connection.client.list_objects_v2(Bucket=self.bucket, MaxKeys=1)

    def _at(self, path: str) -> str:
        return "/".join(part for part in (self.key, path) if part)
