"""Programs that measure; each prints ratios to a peer or a floor of the same run."""
