"""Bytes: where every file lies, and Parquet written and read. Local folders and S3 behind one seam."""

from __future__ import annotations
