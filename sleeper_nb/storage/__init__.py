"""Bytes: where every file lies, and Parquet written and read. Local folders now, buckets behind the same seam."""
