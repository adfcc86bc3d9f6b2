"""Versions of a table: resolve, save, roll back, compare, and protect them while they are read."""

from __future__ import annotations
