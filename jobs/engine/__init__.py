"""Rows of tables read, compared, measured and written, by this process or by Spark.

Folders stand on each other in this order: read, plan, measure and write, compare and query, spark.

Modules:
    errors: why a diff could not be made, with codes.
    failures: what failed, in one line.
    channel_io: a table's files as the web opens them for this process.
    read: what is read, only as far as it is needed.
    plan: what is to be compared.
    measure: statistics of both ends.
    write: what is written: artifacts, and rows of tables.
    compare: two ends compared in DuckDB.
    query: SQL of people over pinned tables.
    spark: the same work in Spark.
    executors: who compares the rows of a diff: this process or Spark.
"""
