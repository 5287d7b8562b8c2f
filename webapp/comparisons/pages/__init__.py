"""What pages show of comparisons.

Modules:
    compare: the Compare tab of a dataset.
    rows: one page of a row diff with its filters.
    columns: the columns of a wide table in pages.
    spread: how the changed rows spread over a column.
    charts: statistics as charts.
    trends: statistics over time.
    blame: who changed one row.
    progress: how far a comparison is, in words.
"""
