"""Records of jobs: what runs, what ran, and why it failed."""
