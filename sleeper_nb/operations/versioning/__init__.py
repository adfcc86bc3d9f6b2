"""Which version is meant, which are kept, and where their metadata is."""

from __future__ import annotations
