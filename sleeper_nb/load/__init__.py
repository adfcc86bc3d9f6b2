"""From a user's data to sorted files, and one commit."""
