"""The same work in Spark, for what one process cannot hold, and a job's tables.

Face:
    session: one session of Spark Connect, from its opening to its end.
    tables: a job's tables, read and written by Spark SQL.
    plans: what the columns of a frame are made of.
    diff: the rows of a diff, reduced to those that may differ.
    statistics: all rows of both ends, measured.
    reader: the live rows of chosen files.

Inside:
    values: values and rules of a diff as columns of Spark.
"""
