"""The shared catalog, in DynamoDB: `catalog` is its face; each other module keeps one kind of item."""

from __future__ import annotations
