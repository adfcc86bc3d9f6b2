"""The lightweight consistency layer: table index, current version of each table, conditional updates."""

from __future__ import annotations
