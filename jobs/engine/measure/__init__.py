"""Statistics of both ends, and how they spread.

Face:
    statistics: `collect`, which makes statistics.json of two ends and the counts of their diff.
    measured: what statistics ask of rows, whoever reads them, and the answers of this process.
    axes: where the values of a column stand on an axis.
"""
