"""SQL statements: tokens, tables, version clauses, parameters and views; no engine is imported here."""

from __future__ import annotations
