"""Upkeep: expiry, garbage collection, sweeps of orphans, and maintenance, which runs what is due."""

from __future__ import annotations
