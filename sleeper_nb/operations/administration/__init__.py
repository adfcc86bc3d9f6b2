"""Administration: declare, alter, reinitialise, migrate and delete tables; their properties; instances."""

from __future__ import annotations
