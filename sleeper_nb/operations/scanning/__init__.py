"""Scans: from a version, keys, columns and a condition to rows."""

from __future__ import annotations
