"""What is done to a table: plan (pure), run (I/O), commit (one transaction)."""
