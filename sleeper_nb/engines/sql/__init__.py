"""Version clauses in SQL text, found and cut out; no engine is imported here."""
