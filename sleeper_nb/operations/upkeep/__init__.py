"""What keeps a table small, and when it may work."""

from __future__ import annotations
