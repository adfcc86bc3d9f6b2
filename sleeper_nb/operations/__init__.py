"""What is done to a table: plan (pure), run (I/O), commit (one transaction)."""

from __future__ import annotations
