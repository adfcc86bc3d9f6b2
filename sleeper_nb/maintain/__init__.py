"""Compaction, garbage collection, checks, status and the service that runs them."""
