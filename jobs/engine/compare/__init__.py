"""Two ends compared in DuckDB: rows that differ, keys, sides and who changed a row."""
