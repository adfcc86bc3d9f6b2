"""What makes tables, names them, empties them and deletes them."""

from __future__ import annotations
