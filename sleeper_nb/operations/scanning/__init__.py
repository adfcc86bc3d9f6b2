"""From a version and what is asked of it to rows."""
