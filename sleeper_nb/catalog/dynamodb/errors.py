"""What an error of DynamoDB means: try again, or tell the user what to do."""

from __future__ import annotations

from typing import Any

from sleeper_nb.aws.network import Judgement
from sleeper_nb.errors import NetworkError, StorageError

TRIES = 16
UNANSWERED_TRIES = 5

CANCELLED = "TransactionCanceledException"
CONDITION_FAILED = "ConditionalCheckFailed"
MISSING = "ResourceNotFoundException"

_PASSING = {
    "ThrottlingException", "Throttling", "ThrottledException", "ProvisionedThroughputExceededException",
    "RequestLimitExceeded", "InternalServerError", "InternalFailure", "ServiceUnavailable",
    "ServiceUnavailableException", "TransactionConflictException", "TransactionInProgressException",
    "LimitExceededException", "RequestTimeout",
}  # fmt: skip
_PASSING_REASONS = {"None", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_REFUSED = {
    "UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch",
    "MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature",
    "InvalidAccessKeyId",
}  # fmt: skip
_NO_CREDENTIALS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError",
    "ProfileNotFound", "SSOError", "SSOTokenLoadError", "UnauthorizedSSOTokenError", "LoginError",
}  # fmt: skip


def _response(error: Exception) -> dict[str, Any]:
    return getattr(error, "response", None) or {}  # a timeout has one too, which is None


def code_of(error: Exception) -> str:
    """Return DynamoDB's code of an error, or "" when it did not answer."""
    return str(_response(error).get("Error", {}).get("Code", ""))


def reasons_of(error: Exception) -> list[dict[str, Any]]:
    """Return why a transaction was cancelled: one reason for each of its parts, in their order."""
    return list(_response(error).get("CancellationReasons", []))


def is_unanswered(error: Exception) -> bool:
    """Return whether the network failed, so that nobody knows whether DynamoDB did what it was asked to."""
    from botocore.exceptions import ConnectionError as ConnectionFailed
    from botocore.exceptions import HTTPClientError, IncompleteReadError

    return isinstance(error, ConnectionFailed | HTTPClientError | IncompleteReadError)


def is_passing(error: Exception) -> bool:
    """Return whether the same request may succeed a little later."""
    if is_unanswered(error) or code_of(error) in _PASSING:
        return True
    if code_of(error) == CANCELLED:
        # A failed condition is an answer, whatever else happened to the transaction.
        codes = {reason.get("Code", "None") for reason in reasons_of(error)}
        return codes <= _PASSING_REASONS
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return bool(status >= 500)


def judge(error: Exception) -> Judgement:
    """Return how often the request of an error may be made, and why it has to be made again."""
    if is_unanswered(error):
        return Judgement(UNANSWERED_TRIES, lost=True, why=f"no answer: {_in_short(error)}")
    return Judgement(TRIES if is_passing(error) else 1, lost=False, why=code_of(error) or _in_short(error))


def incomplete(operation: str, where: str) -> StorageError:
    """Return the error for an answer that lacks a part of what was asked for."""
    hint = "check the network, then run it again"
    return NetworkError(f"the network delivered only a part of the answer to {operation} on {where}", hint=hint)


def explain(error: Exception, operation: str, where: str, tries: int) -> StorageError:
    """Return the error to raise, which names the thing and says what to do.

    Parameters
    ----------
    error
        What boto3 raised.
    operation, where
        The request, and the DynamoDB tables and region that it went to.
    tries
        How often it was made.
    """
    code, kind = code_of(error), {one.__name__ for one in type(error).__mro__}
    asked = f"DynamoDB refused {operation} on {where}"
    if code in _EXPIRED:
        return StorageError(f"{asked}: the credentials expired", hint="renew them (aws sso login), then run it again")
    if code in _REFUSED:
        hint = "check AWS_ACCESS_KEY_ID, AWS_PROFILE and the clock of this machine: aws sts get-caller-identity"
        return StorageError(f"{asked}: the credentials are not valid ({code})", hint=hint)
    if kind & _NO_CREDENTIALS:
        hint = "log in (aws sso login), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return StorageError(f"no credentials for DynamoDB: {error}", hint=hint)
    if "NoRegionError" in kind:
        return StorageError("no region for DynamoDB", hint="set AWS_REGION, or name the region of the catalog")
    if code.startswith("AccessDenied"):
        hint = f"ask for the permission dynamodb:{operation}"
        return StorageError(f"{asked}: {_said(error)}", hint=hint)
    if code == MISSING:
        return StorageError(f"{asked}: a table is not there", hint="is it the right instance, region and account?")
    if is_unanswered(error):
        said = f"the network failed in {_counted(tries)} of {operation} on {where}: {_in_short(error)}"
        return NetworkError(said, hint="check the network, the region and the endpoint_url, then run it again")
    if is_passing(error):
        hint = "it is busy; look at the AWS health page, then run it again"
        said = f"DynamoDB failed in {_counted(tries)} of {operation} on {where}: {_in_short(error)}"
        return StorageError(said, hint=hint)
    return StorageError(f"{asked}: {_said(error)}")


def _counted(tries: int) -> str:
    return "the only try" if tries == 1 else f"each of {tries} tries"


def _in_short(error: Exception) -> str:
    """Return an error's first line."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _said(error: Exception) -> str:
    reasons = {reason.get("Message") or reason.get("Code", "None") for reason in reasons_of(error)}
    said = _response(error).get("Error", {}).get("Message") or str(error)
    return "; ".join([said, *sorted(reasons - {"None", said})])
