"""REST endpoints of comparisons.

Modules:
    history: two ends compared, changelogs of a range, who changed one row.
    rows: what every endpoint of a row diff answers, also of a pull request.
"""
