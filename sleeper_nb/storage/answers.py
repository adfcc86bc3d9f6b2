"""Refuse answers of S3 and DynamoDB that did not arrive whole.

botocore does not compare the length of an answer with its ``Content-Length``, and it reads JSON that it cannot parse,
and an empty XML document, as an answer without members: half a list of savepoints becomes "there are none". So every
answer is checked before botocore parses it:

1. Its length is its ``Content-Length``, and its CRC-32 is the one that DynamoDB sends.
2. Its text is a complete document. A JSON object or an XML document that was cut anywhere is not one, so this finds
   each cut, even where a proxy has adjusted the length.
3. It has the members that every answer to the operation has, and as many entries as it says.

An answer that fails a check counts as lost: nobody knows whether the request was done.
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
"""What each whole answer has; those of GetItem and TransactWriteItems may be empty objects."""
_XML_MEMBERS = {"ListObjectsV2": ("IsTruncated", "KeyCount")}


class CutAnswer(HTTPClientError):  # type: ignore[misc]  # noqa: N818 - named for what it is, as botocore's are not
    """The network delivered a part of an answer."""

    fmt = "the network delivered only a part of the answer to {operation}: {why}"


def refuse_cut_answers(client: Any) -> None:
    """Make a boto3 client raise `CutAnswer` for an answer that is not whole."""
    client.meta.events.register("before-parse", _check)


def _check(operation_model: Any, response_dict: Mapping[str, Any], **_: Any) -> None:
    body, operation = response_dict["body"], operation_model.name
    if not isinstance(body, bytes) or operation_model.http.get("method") == "HEAD":
        return  # a stream compares its length itself when it is read; HEAD has the length of what it does not send
    headers = {name.lower(): value for name, value in response_dict["headers"].items()}
    length, checksum = headers.get("content-length"), headers.get("x-amz-crc32")
    if length is not None and int(length) != len(body):
        raise CutAnswer(operation=operation, why=f"{len(body):,} of {int(length):,} bytes")
    if checksum is not None and int(checksum) != crc32(body):
        raise CutAnswer(operation=operation, why="its checksum is another")
    status = response_dict["status_code"]
    if 300 <= status < 400 or (status >= 500 and not _is_cut_xml(body)):
        return  # a proxy may answer so, in a format of its own
    try:
        why = _fault_of(operation_model, body, failed=status >= 400)
    except (ValueError, ET.ParseError) as error:
        why = f"it is not complete ({error})"
    if why is not None:
        raise CutAnswer(operation=operation, why=why)


def _is_cut_xml(body: bytes) -> bool:
    """Return whether the answer with a status of 500 was another one: botocore makes it of XML that is not complete."""
    start = body.lstrip()[:9].lower()
    if not start.startswith(b"<") or start.startswith((b"<html", b"<!doctype")):
        return False
    try:
        ET.fromstring(body)  # noqa: S314 - of the server that has our data
    except ET.ParseError:
        return True
    return False


def _fault_of(operation_model: Any, body: bytes, *, failed: bool) -> str | None:
    """Return what is missing in an answer; None when it is whole."""
    if operation_model.service_model.resolved_protocol == "json":
        return _json_fault(operation_model.name, json.loads(body), failed=failed)
    if failed:
        return None if ET.fromstring(body).tag.endswith("Error") else "it is no error of S3"  # noqa: S314
    if not _has_document(operation_model.output_shape):
        return None
    return _xml_fault(operation_model.name, ET.fromstring(body))  # noqa: S314 - of the server that has our data


def _json_fault(operation: str, answer: Any, *, failed: bool) -> str | None:
    if not isinstance(answer, dict):
        return "it is no JSON object"
    missing = [name for name in (("__type",) if failed else _JSON_MEMBERS.get(operation, ())) if name not in answer]
    if missing:
        return f"it has no {missing[0]}"
    if operation == "Query" and not failed and answer["Count"] != len(answer["Items"]):
        return f"{len(answer['Items'])} of {answer['Count']} items"
    return None


def _has_document(shape: Any) -> bool:
    """Return whether a successful answer has members in its body, and not only in its headers."""
    if shape is None or "payload" in shape.serialization:
        return False
    return any("location" not in member.serialization for member in shape.members.values())


def _xml_fault(operation: str, root: ET.Element) -> str | None:
    if root.tag.endswith("Error"):
        return None  # botocore knows that S3 reports some errors so
    found: dict[str, list[str]] = {}
    for child in root:
        found.setdefault(child.tag.rpartition("}")[2], []).append(child.text or "")
    missing = [name for name in _XML_MEMBERS.get(operation, ()) if name not in found]
    if missing:
        return f"it has no {missing[0]}"
    if operation != "ListObjectsV2":
        return None
    entries = len(found.get("Contents", ())) + len(found.get("CommonPrefixes", ()))
    if entries != int(found["KeyCount"][0]):
        return f"{entries} of {found['KeyCount'][0]} entries"
    if found["IsTruncated"][0] == "true" and "NextContinuationToken" not in found:
        return "it does not say where the list goes on"
    return None
