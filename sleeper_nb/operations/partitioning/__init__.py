"""Where leaf partitions are cut."""
