"""REST endpoints: `pulls` (pull requests, their diffs, reviews and merge) and `history` (any two ends of a dataset)."""
