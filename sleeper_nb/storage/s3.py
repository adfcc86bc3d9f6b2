"""A prefix of a bucket as a place of files: boto3 for single requests and reads, Arrow for writing large objects.

Each does what the other does not. Arrow writes large objects in parallel, without Python's lock. But its delete leaves
an empty object for the folder, its listing of a missing bucket is empty, and it knows fewer kinds of AWS profiles. So
single requests and credentials are boto3's, which the DynamoDB catalog uses too.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import logging
import platform
import re
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from sleeper_nb.errors import (
    RAISED,
    AccessDenied,
    NetworkError,
    NotFound,
    NotInstalled,
    SleeperError,
    StorageError,
    first_line,
)
from sleeper_nb.model.checksums import etag_stamp
from sleeper_nb.storage.aws import AS_BOTO3_FINDS_IT, AwsTarget, Judgement, Network, in_short
from sleeper_nb.storage.places import COPY_IT, S3Access, StoredFile

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials


logger = logging.getLogger(__name__)

# What errors of boto3 and of Arrow's S3 mean for a user: what is wrong, and what to do.

_SEEN = re.compile(r"AWS Error (?P<code>\w+|\[code \d+\])(?: \(HTTP status (?P<status>\d+)\))?")
# The text of Arrow's S3 library for answers whose code it does not know.
_NAMED = re.compile(r"Unable to parse ExceptionName: (?P<code>\w+)")

_BUCKET = {"nosuchbucket"}
_MISSING = {"nosuchkey", "404", "notfound", "resourcenotfound"}
_KEYS = {
    "invalidaccesskeyid", "signaturedoesnotmatch", "invalidclienttokenid", "invalidsignature", "invalidtoken",
    "unrecognizedclient", "missingauthenticationtoken", "incompletesignature", "authfailure",
    "xadminusernotfound",  # of versitygw
}  # fmt: skip
_EXPIRED = {"expiredtoken", "expiredtokenexception", "tokenrefreshrequired", "requestexpired"}
_DENIED = {"accessdenied", "403", "forbidden", "allaccessdisabled", "accountproblem", "optinrequired"}
_BUSY = {
    "slowdown", "503", "429", "serviceunavailable", "throttling", "throttlingexception", "requestlimitexceeded",
    "toomanyrequests", "internalerror", "internalfailure", "500", "502", "504",
}  # fmt: skip
_ELSEWHERE = {"permanentredirect", "301", "307", "temporaryredirect", "authorizationheadermalformed"}
_CLOCK = {"requesttimetooskewed"}
_NETWORK = "the network failed: no whole answer from S3"
_OFFLINE = {
    "networkconnection", "requesttimeout",
    # An answer during a multipart upload was lost or cut: Arrow continues without the upload id, or ends it twice.
    "nosuchupload", "invalidpart", "invalidpartorder",
}  # fmt: skip

LOST_TRIES, BUSY_TRIES = 5, 8


def judge_s3(error: Exception) -> Judgement:
    code, why = _code(error), in_short(error)
    if code in _OFFLINE:
        return Judgement(LOST_TRIES, lost=True, why=f"no answer: {why}")
    return Judgement(BUSY_TRIES if code in _BUSY else 1, lost=False, why=why)


def explain_s3(error: Exception, located: str, bucket: str, ask: Callable[[], None]) -> SleeperError | None:
    """Return the error for a user, of boto3's or Arrow's; None when it is not one of S3.

    `ask` sends a request to the bucket by boto3, since S3's answer about a single object may not say what is wrong.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    code = _code(error)
    if code in _MISSING | _DENIED:
        try:
            ask()
        except (ClientError, BotoCoreError) as cause:
            code = _code(cause)
    if code is not None:
        return _of_code(code, error, located, bucket)
    return _of_profile(error, located) if isinstance(error, BotoCoreError) else None


def _code(error: Exception) -> str | None:
    """Return S3's code of an error as the sets above spell it; None when it is not an answer of a server."""
    from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError
    from botocore.exceptions import ConnectionError as NoConnection
    from urllib3.exceptions import HTTPError

    if isinstance(error, ClientError):
        return _plain(error.response["Error"]["Code"])
    if isinstance(error, FileNotFoundError):
        return "nosuchkey"
    # no answer, or only part of one; HTTPError where botocore reads the body of a failed stream
    if isinstance(error, NoConnection | HTTPClientError | IncompleteReadError | HTTPError):
        return "networkconnection"
    if not isinstance(error, OSError):
        return None
    text = str(error)
    if "curlCode" in text or "XML_ERROR" in text:  # Arrow's text for no answer, and for one that was cut
        return "networkconnection"
    named, seen = _NAMED.search(text), _SEEN.search(text)
    code = _plain(named["code"]) if named else _plain(seen["code"]) if seen else ""
    return seen["status"] if seen and seen["status"] and code == "unknown" else code


def _plain(code: str) -> str:
    """Return a code as the sets above spell it: NoSuchKey in boto3 is NO_SUCH_KEY in Arrow."""
    return code.replace("_", "").lower()


def _of_code(code: str, error: Exception, located: str, bucket: str) -> SleeperError:
    if code in _BUCKET:
        return StorageError(f"no bucket {bucket!r}", hint="make it first, or check its name, region and endpoint_url")
    if code in _MISSING:
        hint = "was it deleted by hand, by a purge, with its table or with versions that expired?"
        return NotFound(f"no file {located}", hint=hint)
    if code in _OFFLINE:
        hint = "check the network, region and endpoint_url, then run it again"
        return NetworkError(f"{_NETWORK}: {located}", hint=hint)
    for codes, problem, hint in (
        (_KEYS, "S3 does not accept the access keys", "check AWS_ACCESS_KEY_ID and its secret, or the AWS profile"),
        (_EXPIRED, "the AWS keys have expired", "log in again (aws sso login) or get new keys, then run it again"),
        (_DENIED, "S3 denies access", "check the keys, and that they may list, read, write and delete there"),
        (_BUSY, "S3 is too busy", "wait a little, then run it again"),
        (_ELSEWHERE, "the bucket is in another region", "give region=, or set AWS_DEFAULT_REGION"),
        (_CLOCK, "S3 does not accept the time of this machine", "set its clock"),
    ):
        if code in codes:
            kind = AccessDenied if codes is _DENIED else StorageError
            return kind(f"{problem}: {located}", hint=hint)
    return StorageError(f"cannot use {located}: {first_line(error)}", hint="correct that, then run it again")


def _of_profile(error: Exception, located: str) -> StorageError:
    kind = type(error).__name__
    if kind in {"NoCredentialsError", "PartialCredentialsError"}:
        return StorageError(
            f"no AWS keys for {located}",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; or run aws configure",
        )
    if "SSO" in kind or "Token" in kind:
        return StorageError(f"cannot log in to AWS: {error}", hint="run aws sso login, then run it again")
    return StorageError(f"cannot use {located}: {error}", hint="check the AWS settings of the environment")


# Reading objects, where part of an answer is never taken for the whole.
#
# Arrow's own S3 file accepts a short answer whose ``Content-Length`` was adjusted, and returns uninitialised memory for
# the rest. So reading goes through boto3: each answer is compared with the requested range and the object's size, and
# counts as lost when it is shorter. (obstore, tried as a replacement, returns the short answer as well.)

Ask = Callable[[str, Callable[[Any], Any]], Any]
"""Calls a function with the client and retries it, as `S3Connection.ask`."""


def read_object(ask: Ask, bucket: str, key: str) -> bytes:
    """Return an object's content.

    It is requested as a range from the first byte on, since the answer then has the object's size in a header.
    """
    from botocore.exceptions import ClientError

    try:
        content: bytes = ask("GetObject", lambda client: _part(client, bucket, key, "bytes=0-", None))
    except ClientError as error:
        if error.response["Error"]["Code"] not in {"InvalidRange", "416"}:
            raise
        content = ask("GetObject", lambda client: client.get_object(Bucket=bucket, Key=key)["Body"].read())
    return content  # an empty object has no range


def _part(client: Any, bucket: str, key: str, wanted: str, size: int | None) -> bytes:
    """Return a range of an object; of `size` bytes, or all that are left when None."""
    from sleeper_nb.storage.answers import CutAnswer

    answer = client.get_object(Bucket=bucket, Key=key, Range=wanted)
    content = bytes(answer["Body"].read())
    bounds = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", answer.get("ContentRange", ""))
    if size is None and bounds is not None:
        size = int(bounds[3])
    if size is not None and size != len(content):
        raise CutAnswer(operation="GetObject", why=f"{len(content):,} of {size:,} bytes")
    return content


def _list_one(ask: Ask, bucket: str) -> None:
    """Send a request whose answer has a body, which says what is wrong with the bucket or the keys."""
    ask("ListObjectsV2", lambda client: client.list_objects_v2(Bucket=bucket, MaxKeys=1))


class S3Object(io.RawIOBase):
    """One object, read range by range."""

    def __init__(self, ask: Ask, bucket: str, key: str) -> None:
        self._ask, self._bucket, self._key, self._at = ask, bucket, key, 0
        answer = self._explained(
            "HeadObject",
            lambda client: client.head_object(Bucket=bucket, Key=key),
            lambda: _list_one(ask, bucket),
        )
        self._size = int(answer["ContentLength"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; fewer than `size` only at the end of the object."""
        left = max(0, self._size - self._at)
        count = left if size is None or size < 0 else min(size, left)
        if not count:
            return b""
        wanted = f"bytes={self._at}-{self._at + count - 1}"
        content: bytes = self._explained(
            "GetObject", lambda client: _part(client, self._bucket, self._key, wanted, count)
        )
        self._at += count
        return content

    def _explained(self, operation: str, request: Callable[[Any], Any], look: Callable[[], None] = lambda: None) -> Any:
        # Arrow and DuckDB pass the error through their own code, so it is translated here.
        try:
            return self._ask(operation, request)
        except Exception as error:
            explained = explain_s3(error, f"s3://{self._bucket}/{self._key}", self._bucket, look)
            if explained is None:
                raise
            RAISED.keep(explained)
            raise explained from error


class _Readable(fs.FileSystemHandler):  # type: ignore[misc]
    """A file system over all buckets for reading objects; the other operations of Arrow file systems are refused."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def get_type_name(self) -> str:
        return "s3-objects"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [fs.FileInfo(path, fs.FileType.File) for path in paths]  # the first read reports a missing file

    def open_input_file(self, path: str) -> pa.NativeFile:
        bucket, _, key = path.partition("/")
        return pa.PythonFile(S3Object(self._ask, bucket, key), mode="r")

    open_input_stream = open_input_file

    def _refuse(self, *_arguments: object, **_options: object) -> NoReturn:
        raise OSError(errno.EROFS, "this view of S3 is for reading objects")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


def readable(ask: Ask) -> fs.FileSystem:
    return fs.PyFileSystem(_Readable(ask))


_T = TypeVar("_T")

ARROW_TRIES = 4
"""How often Arrow sends a request, with growing waits: a few seconds in all when a server cannot be reached."""
CONNECT_SECONDS = 5
READ_SECONDS = 20
"""How long a server may take to connect, and to begin its answer."""


class S3Connection:
    """A connection to S3 for all buckets; region, server and keys are looked up when first needed.

    `NotInstalled` when boto3 is missing. The region is ``us-east-1`` when boto3 finds none.
    """

    def __init__(self, aws: AwsTarget = AS_BOTO3_FINDS_IT, network: Network | None = None) -> None:
        if importlib.util.find_spec("boto3") is None:
            raise NotInstalled.of("S3", "aws")
        self._aws, self.network = aws, network or Network()
        self._lock = threading.Lock()
        self._client: Any = None
        self._session: Any = None
        self._filesystem: tuple[ReadOnlyCredentials, fs.S3FileSystem] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # Without keys: another process looks up its own. Where S3 is may be set on this machine only.
        aws = AwsTarget(self.client.meta.region_name, self.endpoint_url, self._aws.profile)
        return _connection, (aws, platform.node())

    @property
    def client(self) -> Any:
        with self._lock:
            if self._client is None:
                from botocore.config import Config

                from sleeper_nb.storage.answers import refuse_cut_answers

                self._session = self._aws.session()
                region = self._session.region_name or "us-east-1"
                config = Config(
                    retries={"total_max_attempts": 1},  # `ask` retries, and shows and logs it
                    connect_timeout=CONNECT_SECONDS,
                    read_timeout=READ_SECONDS,
                    max_pool_connections=32,
                )
                made = self._aws.client(self._session, "s3", region_name=region, config=config)
                refuse_cut_answers(made)
                self._client = made
                logger.debug("connected to S3 in region %s at %s", region, self._client.meta.endpoint_url)
            return self._client

    def ask(self, operation: str, send: Callable[[Any], _T]) -> _T:
        """Return the result of `send` with the client; retried when the answer is lost or S3 is busy."""
        answer: _T = self.network.ask(f"S3 {operation}", lambda: send(self.client), judge_s3, _raise)
        return answer

    def access(self, bucket: str) -> S3Access:
        keys = self._keys()
        return S3Access(
            bucket, self.client.meta.region_name, self.endpoint_url, keys.access_key, keys.secret_key, keys.token
        )

    @property
    def endpoint_url(self) -> str | None:
        url = str(self.client.meta.endpoint_url)
        host = urlsplit(url).hostname or ""
        return None if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else url

    @property
    def filesystem(self) -> fs.S3FileSystem:
        """Arrow's file system over all buckets, with current keys."""
        keys, region, endpoint_url = self._keys(), self.client.meta.region_name, self.endpoint_url
        with self._lock:
            if self._filesystem is None or self._filesystem[0] != keys:
                logger.debug("opening Arrow's S3 file system in region %s with the current credentials", region)
                made = fs.S3FileSystem(
                    access_key=keys.access_key,
                    secret_key=keys.secret_key,
                    session_token=keys.token,
                    region=region,
                    endpoint_override=endpoint_url,
                    connect_timeout=CONNECT_SECONDS,
                    request_timeout=READ_SECONDS,
                    retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ARROW_TRIES),
                    # A small file is then one request, not the three of a multipart upload.
                    allow_delayed_open=True,
                )
                self._filesystem = keys, made
            return self._filesystem[1]

    def _keys(self) -> ReadOnlyCredentials:
        from botocore.exceptions import NoCredentialsError

        assert self.client is not None  # noqa: S101 - the property creates the session
        credentials = self._aws.keys(self._session)
        if credentials is None:
            raise NoCredentialsError
        return credentials.get_frozen_credentials()


def _raise(error: Exception, tries: int) -> Any:  # noqa: ARG001 - the number of attempts does not help a user here
    raise error


def _connection(aws: AwsTarget, machine: str) -> S3Connection:
    return S3Connection(aws.here(machine))


class S3Place:
    """A prefix of a bucket; prefixes need not be created."""

    local = False

    def __init__(self, connection: S3Connection, bucket: str, key: str = "") -> None:
        self.connection, self.bucket, self.key = connection, bucket, key
        self.prefix = f"{bucket}/{key}" if key else bucket
        self.root = f"s3://{self.prefix}"

    @property
    def filesystem(self) -> fs.FileSystem:
        return self.connection.filesystem

    @property
    def readable(self) -> fs.FileSystem:
        return readable(self.connection.ask)

    @property
    def access(self) -> S3Access:
        return self.connection.access(self.bucket)

    @property
    def network(self) -> Network:
        return self.connection.network

    def below(self, folder: str) -> S3Place:
        return S3Place(self.connection, self.bucket, self._at(folder))

    def create(self, path: str) -> pa.NativeFile:
        return self.filesystem.open_output_stream(f"{self.prefix}/{path}")

    def keep(self, path: str) -> None:
        """Do nothing: a closed object is durable."""

    def whole(self, path: str) -> bytes:
        return read_object(self.connection.ask, self.bucket, self._at(path))

    def put(self, path: str, content: bytes) -> bool:
        self.connection.ask(
            "PutObject", lambda client: client.put_object(Bucket=self.bucket, Key=self._at(path), Body=content)
        )
        return True

    def put_new(self, path: str, content: bytes) -> bool:
        from botocore.exceptions import ClientError

        request = {"Bucket": self.bucket, "Key": self._at(path), "Body": content, "IfNoneMatch": "*"}
        try:
            self.connection.ask("PutObject", lambda client: client.put_object(**request))
        except ClientError as error:
            # the second code: another request for the same key was under way
            code = error.response["Error"]["Code"]
            if code in {"PreconditionFailed", "ConditionalRequestConflict"}:
                logger.debug("%s/%s was not written, because another writer was first (%s)", self.root, path, code)
                return False
            raise
        return True

    def size(self, path: str) -> int:
        return int(self._head(path)["ContentLength"])

    def stamped(self, path: str) -> tuple[int, str]:
        head = self._head(path)
        return int(head["ContentLength"]), etag_stamp(head["ETag"].strip('"'))

    def _head(self, path: str) -> Any:
        return self.connection.ask(
            "HeadObject", lambda client: client.head_object(Bucket=self.bucket, Key=self._at(path))
        )

    def elsewhere(self, address: str) -> tuple[S3Place, str]:
        if not address.startswith("s3://"):
            raise StorageError(f"{address} is in a folder, and the table in a bucket", hint=COPY_IT)
        bucket, _, key = address.removeprefix("s3://").partition("/")
        return S3Place(self.connection, bucket), key

    def files(self, folder: str) -> list[StoredFile]:
        top = f"{self._at(folder)}/" if folder or self.key else ""
        cut = len(self.key) + 1 if self.key else 0
        return [
            StoredFile(found["Key"][cut:], int(found["Size"]), found["LastModified"])
            for page in self._pages(top)
            for found in page.get("Contents", ())
            if not found["Key"].endswith("/")  # an empty object with which other tools mark a folder
        ]

    def links_in(self, folder: str) -> dict[str, str]:  # noqa: ARG002 - a bucket has none
        return {}

    def folders(self, folder: str) -> list[str]:
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

    def delete(self, path: str) -> None:
        self.connection.ask("DeleteObject", lambda client: client.delete_object(Bucket=self.bucket, Key=self._at(path)))

    def delete_all(self, folder: str) -> None:
        for page in self._pages(f"{self._at(folder)}/"):
            keys = [found["Key"] for found in page.get("Contents", ())]  # one request takes as many keys as a page has
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
            raise OSError(f"S3 did not confirm the deletion of {len(left)} objects: {min(left)}")

    def take(self, address: str, path: str) -> None:  # noqa: ARG002
        raise StorageError(f"{address} is in a bucket, where a file has one name", hint=COPY_IT)

    def release(self, address: str, path: str) -> None:
        """Delete nothing: no file has two names."""

    def is_settled(self, path: str, since: datetime) -> bool:  # noqa: ARG002 - files are not moved here
        return True

    def look_once(self) -> Any:
        request = {"Bucket": self.bucket, "MaxKeys": 1, **({"Prefix": f"{self.key}/"} if self.key else {})}
        return self.connection.ask("ListObjectsV2", lambda client: client.list_objects_v2(**request))

    def has_bucket(self) -> bool:
        from botocore.exceptions import ClientError

        try:
            self.look_once()
        except ClientError as error:
            if _code(error) in _BUCKET:
                return False
            raise
        return True

    def make_bucket(self) -> None:
        """Make the bucket in the region of the connection; one that this account has already stays."""
        from botocore.exceptions import ClientError

        region = self.connection.client.meta.region_name
        place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        try:
            self.connection.ask("CreateBucket", lambda client: client.create_bucket(Bucket=self.bucket, **place))
        except ClientError as error:
            if _code(error) != "bucketalreadyownedbyyou":
                raise

    def explain(self, error: Exception, located: str) -> SleeperError | None:
        return explain_s3(error, located, self.bucket, lambda: _list_one(self.connection.ask, self.bucket))

    def _at(self, path: str) -> str:
        return "/".join(part for part in (self.key, path) if part)
