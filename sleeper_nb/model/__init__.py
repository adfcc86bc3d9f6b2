"""Frozen values and the rules between them: schema, partitions, files, state, transactions, versions. No I/O."""

from __future__ import annotations
