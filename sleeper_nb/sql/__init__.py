"""Version clauses in SQL text, found and cut out; no engine is imported here."""

from __future__ import annotations
