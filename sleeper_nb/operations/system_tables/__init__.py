"""A table's metadata as tables that SQL asks: what they are, and where their rows come from."""
