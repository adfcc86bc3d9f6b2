"""The lightweight consistency layer: table index, current version of each table, conditional updates."""
