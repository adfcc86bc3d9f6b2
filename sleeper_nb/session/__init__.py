"""`Session`: an open instance of a warehouse, its tables, and SQL over them; `connect` opens one."""

from sleeper_nb.engines.own_errors import own_error
from sleeper_nb.session.connecting import connect, open_leases, open_source_table
from sleeper_nb.session.session import Session
from sleeper_nb.session.warehouse import open_warehouse

__all__ = ["Session", "connect", "open_leases", "open_source_table", "open_warehouse", "own_error"]
