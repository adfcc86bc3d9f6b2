"""What errors of boto3 and of Arrow's S3 mean for a user: what is wrong, in a line, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Callable

from sleeper_nb.aws.network import Judgement
from sleeper_nb.errors import NetworkError, NotFound, SleeperError, StorageError

_SEEN = re.compile(r"AWS Error (?P<code>\w+|\[code \d+\])(?: \(HTTP status (?P<status>\d+)\))?")
# What Arrow's S3 library says of answers whose code it does not know.
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
    # An answer in an upload in parts was lost or cut: Arrow goes on without the id of the upload, or ends it once more.
    "nosuchupload", "invalidpart", "invalidpartorder",
}  # fmt: skip

LOST_TRIES, BUSY_TRIES = 5, 8


def judge(error: Exception) -> Judgement:
    """Return how often the request of an error may be made, and why it has to be made again."""
    code, why = _code(error), (str(error).splitlines() or [type(error).__name__])[0]
    if code in _OFFLINE:
        return Judgement(LOST_TRIES, lost=True, why=f"no answer: {why}")
    return Judgement(BUSY_TRIES if code in _BUSY else 1, lost=False, why=why)


def explain(error: Exception, located: str, bucket: str, ask: Callable[[], None]) -> SleeperError | None:
    """Return the error for a user; None when it is not one of S3.

    Parameters
    ----------
    error
        From boto3, or an `OSError` from Arrow.
    located
        The object's address.
    ask
        Asks the bucket something by boto3: S3's answer to a question about one object need not say what is wrong.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    code = _code(error)
    if code in _MISSING | _DENIED:
        try:
            ask()
        except (ClientError, BotoCoreError) as said:
            code = _code(said)
    if code is not None:
        return _of_code(code, str(error), located, bucket)
    return _of_profile(error, located) if isinstance(error, BotoCoreError) else None


def _code(error: Exception) -> str | None:
    """Return S3's code of an error, in the spelling of the sets above; None when it is not the answer of a server."""
    from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError
    from botocore.exceptions import ConnectionError as NoConnection
    from urllib3.exceptions import HTTPError

    if isinstance(error, ClientError):
        return _plain(error.response["Error"]["Code"])
    if isinstance(error, FileNotFoundError):
        return "nosuchkey"
    # no answer, or only a part of one; the last where botocore reads the body of an error of a stream
    if isinstance(error, NoConnection | HTTPClientError | IncompleteReadError | HTTPError):
        return "networkconnection"
    if not isinstance(error, OSError):
        return None
    text = str(error)
    if "curlCode" in text or "XML_ERROR" in text:  # Arrow's words for no answer, and for one that was cut
        return "networkconnection"
    named, seen = _NAMED.search(text), _SEEN.search(text)
    code = _plain(named["code"]) if named else _plain(seen["code"]) if seen else ""
    return seen["status"] if seen and seen["status"] and code == "unknown" else code


def _plain(code: str) -> str:
    """Return a code in the one spelling of the sets above: boto3's NoSuchKey is Arrow's NO_SUCH_KEY."""
    return code.replace("_", "").lower()


def _of_code(code: str, text: str, located: str, bucket: str) -> SleeperError:
    if code in _BUCKET:
        return StorageError(f"no bucket {bucket!r}", hint="make it first, or check its name, region and endpoint_url")
    if code in _MISSING:
        return NotFound(f"no file {located}", hint="was it deleted by hand?")
    if code in _OFFLINE:
        hint = "check the network, region and endpoint_url, then run it again"
        return NetworkError(f"{_NETWORK}: {located}", hint=hint)
    for codes, said, hint in (
        (_KEYS, "S3 does not accept the access keys", "check AWS_ACCESS_KEY_ID and its secret, or the AWS profile"),
        (_EXPIRED, "the AWS keys have expired", "log in again (aws sso login) or get new keys, then run it again"),
        (_DENIED, "S3 denies access", "check the keys, and that they may list, read, write and delete there"),
        (_BUSY, "S3 is too busy", "wait a little, then run it again"),
        (_ELSEWHERE, "the bucket is in another region", "give region=, or set AWS_DEFAULT_REGION"),
        (_CLOCK, "S3 does not accept the time of this machine", "set its clock"),
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
