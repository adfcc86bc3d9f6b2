"""Edits of rows as values; from an edit list to deletion vectors, new files and one commit; purges."""
