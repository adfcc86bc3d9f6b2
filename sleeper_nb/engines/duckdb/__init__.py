"""DuckDB: tables as relations, and questions about metadata."""
