"""From whatever a user hands in to data files and one commit."""
