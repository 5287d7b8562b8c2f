"""Everything that reads comparisons.

Modules:
    ends: two ends of a dataset's history, and what lies between.
    changelogs: which range of history is asked for.
    blames: which history is walked for one row, and what was found.
    counts: how far a row diff is, and what it has counted.
    trends: how the statistics of a dataset went over its last transactions.
    artifacts: where stored comparisons lie.
"""
