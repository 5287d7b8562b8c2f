"""Writes of pull requests: `pulls` (their life and reviews), `comparisons` (stored row diffs), `merging`."""
