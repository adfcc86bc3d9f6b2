"""Ingest: from the user's files or data in memory to data files and one commit."""

from __future__ import annotations
