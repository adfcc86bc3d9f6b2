"""A versioned, key-sorted table store in a notebook."""
