"""What each kind of work asks of AWS: one table, from which come the policies of roles and the doctor's list."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

BUCKET, FILES, CATALOG = "bucket", "files", "DynamoDB tables"
READER, WRITER, MAINTAINER = "reader", "writer", "maintainer"
ROLES: Final = (READER, WRITER, MAINTAINER)
"""Each role may do the work of those before it, too."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of work: who does it, and the actions that it needs, on what.

    Parameters
    ----------
    name
        One word, which is the name of its statement in a policy.
    text
        What it is for.
    role
        The least role that does it.
    on
        ``bucket``, ``files`` (all below the instance's prefix) or ``DynamoDB tables`` (of the instance).
    actions
        The actions of IAM.
    """

    name: str
    text: str
    role: str
    on: str
    actions: tuple[str, ...]


WORK: Final = (
    Work("FindFiles", "list files, and tell a missing file from a forbidden one", READER, BUCKET, ("s3:ListBucket",)),
    Work("ReadFiles", "read rows, metadata and properties", READER, FILES, ("s3:GetObject",)),
    Work("ReadCatalog", "find tables and versions", READER, CATALOG,
         ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query")),
    Work("WriteFiles", "write rows, metadata and properties; delete what a failed load wrote", WRITER, FILES,
         ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject")),
    Work("Commit", "commit, and hold leases", WRITER, CATALOG,
         ("dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:DescribeTable",
          "dynamodb:PutItem", "dynamodb:UpdateItem")),
    Work("MakeTables", "make DynamoDB tables, and delete those that a deleted table had alone", MAINTAINER, CATALOG,
         ("dynamodb:CreateTable", "dynamodb:DeleteTable")),
)  # fmt: skip
"""The table. A test runs each kind of work with the actions of its role alone."""

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
_PARTITIONS: Final = (
    ("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"), ("us-isob-", "aws-iso-b"), ("us-isof-", "aws-iso-f"),
    ("eu-isoe-", "aws-iso-e"), ("us-iso-", "aws-iso"), ("eusc-", "aws-eusc"), ("", "aws"),
)  # fmt: skip
"""What regions begin with, and their part of AWS."""


def actions_of(operation: str, request: Mapping[str, Any]) -> frozenset[str]:
    """Return the actions of IAM that a request to S3 or DynamoDB needs; a transaction needs those of its parts."""
    if operation in _S3:
        return frozenset({_S3[operation]})
    parts = (part for item in request.get("TransactItems", ()) for part in item)
    return frozenset(f"dynamodb:{_PARTS[part]}" for part in parts) or frozenset({f"dynamodb:{operation}"})


def work_of(role: str) -> tuple[Work, ...]:
    """Return the kinds of work of a role, and of those before it."""
    return tuple(each for each in WORK if ROLES.index(each.role) <= ROLES.index(role))


@dataclass(frozen=True, slots=True)
class AwsScope:
    """What policies are about: an instance, in a bucket and in a region of DynamoDB.

    Parameters
    ----------
    bucket, prefix
        Of the warehouse; the prefix may be empty.
    tables
        Of the instance in DynamoDB. They are named one by one, since what begins with the name of an instance may be of
        another one; a ``?`` is any one character.
    """

    bucket: str
    prefix: str
    instance: str
    region: str
    tables: tuple[str, ...]

    @property
    def _partition(self) -> str:
        return next(partition for start, partition in _PARTITIONS if self.region.startswith(start))

    def resources(self, on: str) -> tuple[str, ...]:
        """Return the names, for IAM, of what some work is on."""
        if on == BUCKET:
            return (f"arn:{self._partition}:s3:::{self.bucket}",)
        if on == FILES:
            below = "/".join(part for part in (self.bucket, self.prefix, self.instance) if part)
            return (f"arn:{self._partition}:s3:::{_literal(below)}/*",)
        return tuple(f"arn:{self._partition}:dynamodb:{self.region}:*:table/{name}" for name in self.tables)

    def policy(self, role: str) -> dict[str, Any]:
        """Return the policy of a role, as IAM takes it."""
        return {"Version": "2012-10-17", "Statement": list(self._statements(role))}

    def policy_text(self, role: str) -> str:
        """Return the policy of a role as JSON."""
        return json.dumps(self.policy(role), indent=2)

    def _statements(self, role: str) -> Iterator[dict[str, Any]]:
        for work in work_of(role):
            statement: dict[str, Any] = {
                "Sid": work.name, "Effect": "Allow", "Action": list(work.actions),
                "Resource": list(self.resources(work.on)),
            }  # fmt: skip
            if work.on == BUCKET and self.prefix:
                # A look for one object names no prefix, and S3 says "not found" only to those who may list. So a
                # listing that names no prefix is allowed, too: IAM cannot tell them apart.
                prefix = _literal(self.prefix)
                statement["Condition"] = {"StringLikeIfExists": {"s3:prefix": [prefix, f"{prefix}/*"]}}
            yield statement


def _literal(text: str) -> str:
    """Return a text as a pattern of IAM that only the text itself matches."""
    return re.sub(r"[*?$]", r"${\g<0>}", text)
