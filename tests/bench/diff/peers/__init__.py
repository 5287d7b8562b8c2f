"""What `tests.bench.diff` compares the engine with, beside DuckDB."""
