"""Widgets over sessions and tables; each saves a static picture first."""
