"""`Table`: one open table. It has versions to read, and parts that load, configure, maintain and monitor it."""

from sleeper_nb.table.table import Table

__all__ = ["Table"]
