"""Versions of a table: find, save, expire and roll back; what differs between two; readers' leases."""
