"""Change rows: an edit list says which rows go and which come; one writer applies it, and one commit publishes it."""
