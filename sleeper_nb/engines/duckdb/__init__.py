"""DuckDB: tables as relations, and questions about metadata."""

from __future__ import annotations
