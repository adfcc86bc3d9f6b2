"""Reject responses of S3 and DynamoDB that are incomplete.

botocore does not compare the length of a response with its ``Content-Length``. It also reads JSON that it cannot parse,
and an empty XML document, as a response without members: a truncated list of savepoints becomes an empty list. So every
response is checked before botocore parses it:

1. Its length equals its ``Content-Length``, and its CRC-32 equals the one that DynamoDB sends.
2. Its text is a complete document. A truncated JSON object or XML document never is, so this detects every truncation,
   even if a proxy has adjusted the length.
3. It has the members that every response to the operation has, and as many entries as it declares.

A response that fails a check counts as lost: the request may or may not have been carried out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET
from zlib import crc32

from botocore.exceptions import HTTPClientError

_JSON_MEMBERS = {
    "Query": ("Items", "Count"),
    "TransactGetItems": ("Responses",),
    "BatchWriteItem": ("UnprocessedItems",),
    "BatchGetItem": ("Responses", "UnprocessedKeys"),
    "DescribeTable": ("Table",),
    "CreateTable": ("TableDescription",),
    "DeleteTable": ("TableDescription",),
}
"""The members of every complete response; those of GetItem and TransactWriteItems may be empty objects."""
_XML_MEMBERS = {"ListObjectsV2": ("IsTruncated", "KeyCount")}


class CutAnswer(HTTPClientError):  # type: ignore[misc]  # noqa: N818 - named for what it is, as botocore's are not
    """The network delivered only a part of a response."""

    fmt = "the network delivered only a part of the answer to {operation}: {why}"


def refuse_cut_answers(client: Any) -> None:
    """Make a boto3 client raise `CutAnswer` for an incomplete response."""
    client.meta.events.register("before-parse", _check)


def _check(operation_model: Any, response_dict: Mapping[str, Any], **_: Any) -> None:
    body, operation = response_dict["body"], operation_model.name
    if not isinstance(body, bytes) or operation_model.http.get("method") == "HEAD":
        return  # a stream checks its length when it is read; the length in a response to HEAD is that of the object
    headers = {name.lower(): value for name, value in response_dict["headers"].items()}
    length, checksum = headers.get("content-length"), headers.get("x-amz-crc32")
    if length is not None and int(length) != len(body):
        raise CutAnswer(operation=operation, why=f"{len(body):,} of {int(length):,} bytes")
    if checksum is not None and int(checksum) != crc32(body):
        raise CutAnswer(operation=operation, why="its checksum differs")
    status = response_dict["status_code"]
    if 300 <= status < 400 or (status >= 500 and not _is_cut_xml(body)):
        return  # it may come from a proxy, in another format
    try:
        why = _fault_of(operation_model, body, failed=status >= 400)
    except (ValueError, ET.ParseError) as error:
        why = f"it is not complete ({error})"
    if why is not None:
        raise CutAnswer(operation=operation, why=why)


def _is_cut_xml(body: bytes) -> bool:
    """Return whether a response with status 500 is truncated XML: botocore sets that status for it."""
    start = body.lstrip()[:9].lower()
    if not start.startswith(b"<") or start.startswith((b"<html", b"<!doctype")):
        return False
    try:
        ET.fromstring(body)  # noqa: S314 - from the server that stores our data
    except ET.ParseError:
        return True
    return False


def _fault_of(operation_model: Any, body: bytes, *, failed: bool) -> str | None:
    if operation_model.service_model.resolved_protocol == "json":
        return _json_fault(operation_model.name, json.loads(body), failed=failed)
    if failed:
        return None if ET.fromstring(body).tag.endswith("Error") else "it is not an S3 error"  # noqa: S314
    if not _has_document(operation_model.output_shape):
        return None
    return _xml_fault(operation_model.name, ET.fromstring(body))  # noqa: S314 - from the server that stores our data


def _json_fault(operation: str, answer: Any, *, failed: bool) -> str | None:
    if not isinstance(answer, dict):
        return "it is not a JSON object"
    missing = [name for name in (("__type",) if failed else _JSON_MEMBERS.get(operation, ())) if name not in answer]
    if missing:
        return f"it has no {missing[0]}"
    if operation == "Query" and not failed and answer["Count"] != len(answer["Items"]):
        return f"{len(answer['Items'])} of {answer['Count']} items"
    return None


def _has_document(shape: Any) -> bool:
    """Return whether a successful response has members in its body, not only in its headers."""
    if shape is None or "payload" in shape.serialization:
        return False
    return any("location" not in member.serialization for member in shape.members.values())


def _xml_fault(operation: str, root: ET.Element) -> str | None:
    if root.tag.endswith("Error"):
        return None  # S3 reports some errors this way, and botocore handles them
    members: dict[str, list[str]] = {}
    for child in root:
        members.setdefault(child.tag.rpartition("}")[2], []).append(child.text or "")
    missing = [name for name in _XML_MEMBERS.get(operation, ()) if name not in members]
    if missing:
        return f"it has no {missing[0]}"
    if operation != "ListObjectsV2":
        return None
    entries = len(members.get("Contents", ())) + len(members.get("CommonPrefixes", ()))
    if entries != int(members["KeyCount"][0]):
        return f"{entries} of {members['KeyCount'][0]} entries"
    if members["IsTruncated"][0] == "true" and "NextContinuationToken" not in members:
        return "it has no continuation token"
    return None
