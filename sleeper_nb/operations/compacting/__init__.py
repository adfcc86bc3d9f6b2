"""Merging the files of leaf partitions."""
