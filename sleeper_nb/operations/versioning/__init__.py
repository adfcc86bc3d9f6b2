"""Which version is meant, which are kept, and where their metadata is."""
