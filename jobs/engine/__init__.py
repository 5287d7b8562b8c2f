"""Rows of tables read, compared, measured and written, by this process or by Spark.

Folders stand on each other in this order: read, plan, measure and write, compare, spark. `executors` chooses who compares the
rows of a diff; `errors` and `failures` say what went wrong, `channel_io` opens files as the web gives them.
"""
