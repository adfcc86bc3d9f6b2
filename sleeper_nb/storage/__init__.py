"""Files in local folders and on S3: paths, reading, writing, Parquet."""

from __future__ import annotations
