"""What errors of boto3 and of Arrow's S3 mean for a user: what is wrong, in a line, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable

from sleeper_nb.errors import NotFound, SleeperError, StorageError

_SEEN = re.compile(r"AWS Error (?P<code>\w+|\[code \d+\])(?: \(HTTP status (?P<status>\d+)\))?")
# What Arrow's S3 library says of answers whose code it does not know.
_NAMED = re.compile(r"Unable to parse ExceptionName: (?P<code>\w+)")

_BUCKET = {"nosuchbucket"}
_MISSING = {"nosuchkey", "404", "notfound", "resourcenotfound"}
_KEYS = {
    "invalidaccesskeyid", "signaturedoesnotmatch", "invalidclienttokenid", "invalidsignature", "invalidtoken",
    "unrecognizedclient", "missingauthenticationtoken", "incompletesignature", "authfailure",
}  # fmt: skip
_EXPIRED = {"expiredtoken", "expiredtokenexception", "tokenrefreshrequired", "requestexpired"}
_DENIED = {"accessdenied", "403", "forbidden", "allaccessdisabled", "accountproblem", "optinrequired"}
_BUSY = {
    "slowdown", "503", "429", "serviceunavailable", "throttling", "throttlingexception", "requestlimitexceeded",
    "toomanyrequests", "internalerror", "internalfailure", "500", "502", "504",
}  # fmt: skip
_ELSEWHERE = {"permanentredirect", "301", "307", "temporaryredirect", "authorizationheadermalformed"}
_CLOCK = {"requesttimetooskewed"}
_OFFLINE = {"networkconnection", "requesttimeout"}


def explain(error: Exception, located: str, bucket: str, has_bucket: Callable[[], bool]) -> SleeperError | None:
    """Return the error for a user; None when it is not one of S3.

    Parameters
    ----------
    error
        From boto3, or an `OSError` from Arrow.
    located
        The object's address.
    has_bucket
        Asks whether the bucket is there, for answers that do not tell.
    """
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    if isinstance(error, ClientError):
        return _of_code(_plain(error.response["Error"]["Code"]), str(error), located, bucket, has_bucket)
    if isinstance(error, FileNotFoundError):
        return _of_code("nosuchkey", str(error), located, bucket, has_bucket)
    if isinstance(error, HTTPClientError):  # no connection, no answer in time, a broken one
        return _of_code("networkconnection", str(error), located, bucket, has_bucket)
    if isinstance(error, BotoCoreError):
        return _of_profile(error, located)
    if not isinstance(error, OSError):
        return None
    text = str(error)
    found = _NAMED.search(text) or _SEEN.search(text)
    code = "" if found is None else _plain(found["code"])
    status = found["status"] if found is not None and "status" in found.groupdict() else None
    if code in {"", "unknown"} and status:
        code = status
    if "curlCode" in text:
        code = "networkconnection"
    return _of_code(code, text, located, bucket, has_bucket)


def _plain(code: str) -> str:
    """Return a code in the one spelling of the sets above: boto3's NoSuchKey is Arrow's NO_SUCH_KEY."""
    return code.replace("_", "").lower()


def _of_code(code: str, text: str, located: str, bucket: str, has_bucket: Callable[[], bool]) -> SleeperError:
    if code in _BUCKET or (code in _MISSING and not has_bucket()):
        return StorageError(f"no bucket {bucket!r}", hint="make it first, or check its name, region and endpoint_url")
    if code in _MISSING:
        return NotFound(f"no file {located}", hint="was it deleted by hand?")
    for codes, said, hint in (
        (_KEYS, "S3 does not accept the access keys", "check AWS_ACCESS_KEY_ID and its secret, or the AWS profile"),
        (_EXPIRED, "the AWS keys have expired", "log in again (aws sso login) or get new keys, then run it again"),
        (_DENIED, "S3 denies access", "check the keys, and that they may list, read, write and delete there"),
        (_BUSY, "S3 is too busy", "wait a little, then run it again"),
        (_ELSEWHERE, "the bucket is in another region", "give region=, or set AWS_DEFAULT_REGION"),
        (_CLOCK, "S3 does not accept the time of this machine", "set its clock"),
        (_OFFLINE, "cannot reach S3", "check the network, region and endpoint_url, then run it again"),
    ):
        if code in codes:
            return StorageError(f"{said}: {located}", hint=hint)
    return StorageError(f"cannot use {located}: {text.splitlines()[0]}", hint="mend that, then run it again")


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
