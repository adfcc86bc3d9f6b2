"""From whatever a user hands in to data files and one commit."""

from __future__ import annotations
