"""Statistics of both ends, and how they spread."""
