"""Two ends compared in DuckDB: which rows differ, and who changed one of them.

A diff is planned, its rows to compare are named (`file_rows`, or `reduced` where Spark has left them), brought together
(`joined` by key, else `net`), counted, written and measured. Each step is a function of values that are complete when
they are made, and says in its signature all that it needs.

Face:
    diff: `run_diff`, from a request to an artifact.
    blame: `find_blame`, which transactions changed the row of one key.
    comparison: what every step works with, and other executors are given.
    reduced: what other executors leave of the rows, and give back.

Inside:
    file_rows: the rows of both ends as this process reads them from files.
    decoded: how much the files of a diff take once they are decoded.
    lineage: about how many rows differ, by the ids of rows.
    compared_rows: the rows to compare, wherever they come from.
    changes: from the rows to compare to the table `changes`.
    joined: rows of both ends paired by key.
    net: each distinct row by the difference of its counts.
    keys: keys that an end lacks, that have several rows, or a NULL.
    summary: the counts of a diff.
    row_key: the key of one row whose history is asked.
    key_change: how one transaction changed the rows of one key.
"""
