"""Create, alter, delete and migrate tables; their properties; instances."""
