"""Publish versions as Iceberg metadata, so that other engines read the same files by a path; no row is copied."""
