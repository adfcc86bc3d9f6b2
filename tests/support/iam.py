"""IAM in small: requests of boto3 are refused unless a policy allows their actions, as AWS would."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from sleeper_nb.storage.aws import AwsTarget
from sleeper_nb.storage.s3 import S3Place

ACCOUNT = "123456789012"
_S3: Final[Mapping[str, str]] = {
    **dict.fromkeys(("HeadBucket", "ListObjectsV2"), "s3:ListBucket"),
    **dict.fromkeys(("GetObject", "HeadObject"), "s3:GetObject"),
    **dict.fromkeys(("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"), "s3:PutObject"),
    **dict.fromkeys(("DeleteObject", "DeleteObjects"), "s3:DeleteObject"),
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "CreateBucket": "s3:CreateBucket",
}
_PARTS: Final[Mapping[str, str]] = {
    "Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}  # fmt: skip


def actions_of(operation: str, request: Mapping[str, Any]) -> frozenset[str]:
    """Return the actions of IAM that a request to S3 or DynamoDB needs; a transaction needs those of its parts."""
    if operation in _S3:
        return frozenset({_S3[operation]})
    parts = (part for item in request.get("TransactItems", ()) for part in item)
    return frozenset(f"dynamodb:{_PARTS[part]}" for part in parts) or frozenset({f"dynamodb:{operation}"})


_PATTERN = re.compile(r"\$\{([*?$])\}|(\*)|(\?)|(.)", re.DOTALL)


def matches_pattern(text: str, pattern: str) -> bool:
    """Whether IAM says that a text is as a pattern, in which ``${*}`` is a star."""
    parts = [".*" if star else "." if one else re.escape(kept or plain)
             for kept, star, one, plain in _PATTERN.findall(pattern)]  # fmt: skip
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def allows(policy: Mapping[str, Any], action: str, resource: str, prefix: str | None) -> bool:
    """Whether some statement allows an action on a resource; `prefix` is that of a listing."""
    for statement in policy["Statement"]:
        kept = statement.get("Condition", {}).get("StringLikeIfExists", {}).get("s3:prefix")
        matches = any(matches_pattern(action, each) for each in statement["Action"])
        matches = matches and any(matches_pattern(resource, each) for each in statement["Resource"])
        if matches and (kept is None or prefix is None or any(matches_pattern(prefix, each) for each in kept)):
            return True
    return False


def resources_of(operation: str, request: Mapping[str, Any], region: str) -> set[str]:
    """Return what a request is about, as IAM names it."""
    table = f"arn:aws:dynamodb:{region}:{ACCOUNT}:table/"
    if "TransactItems" in request:
        return {table + part["TableName"] for item in request["TransactItems"] for part in item.values()}
    if "RequestItems" in request:
        return {table + name for name in request["RequestItems"]}
    if "TableName" in request:
        return {table + request["TableName"]}
    bucket = f"arn:aws:s3:::{request['Bucket']}"
    if operation == "DeleteObjects":
        return {f"{bucket}/{each['Key']}" for each in request["Delete"]["Objects"]}
    return {f"{bucket}/{request['Key']}" if "Key" in request else bucket}


@contextlib.contextmanager
def only(policy: Mapping[str, Any], region: str = "us-east-1") -> Iterator[set[str]]:
    """Refuse, in new sessions, what a policy does not allow; yields the actions that were done under it."""
    used: set[str] = set()
    session_of = AwsTarget.session

    def check(operation: str, request: Mapping[str, Any]) -> None:
        from botocore.exceptions import ClientError

        for action in actions_of(operation, request):
            for resource in resources_of(operation, request, region):
                if not allows(policy, action, resource, request.get("Prefix")):
                    code = "AccessDeniedException" if action.startswith("dynamodb") else "AccessDenied"
                    refused = {"Error": {"Code": code, "Message": f"not authorized: {action} on {resource}"}}
                    raise ClientError(refused, operation)
            used.add(action)

    def watched(self: AwsTarget) -> Any:
        made = session_of(self)

        def before(params: Mapping[str, Any], model: Any, **_: object) -> None:
            check(model.name, params)

        made.events.register("provide-client-params.*.*", before)
        return made

    def create(self: S3Place, path: str) -> Any:  # Arrow's own client, which boto3 does not see
        check("PutObject", {"Bucket": self.bucket, "Key": self._at(path)})
        return created(self, path)

    created = S3Place.create
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AwsTarget, "session", watched)
        patch.setattr(S3Place, "create", create)
        yield used
