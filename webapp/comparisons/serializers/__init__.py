"""Shapes of comparisons in the REST API.

Modules:
    history: two ends compared, the changelog of a range, who changed one row.
    described: row diffs and their parts.
"""
