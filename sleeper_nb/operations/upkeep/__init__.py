"""What keeps a table small, and when it may work."""
