"""How a table is, and whether anything is wrong with it."""
