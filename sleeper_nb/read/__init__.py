"""Rows out of data files: regions, pruning, plans, statistics, merged reads and iterators."""
