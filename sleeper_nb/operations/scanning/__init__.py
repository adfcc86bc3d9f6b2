"""From a version and what is asked of it to rows."""

from __future__ import annotations
