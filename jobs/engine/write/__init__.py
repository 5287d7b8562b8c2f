"""What is written: the artifact of a comparison, and the rows of a table.

Face:
    artifact: what is in the folder that a finished diff leaves, and how a reader sees all of a file or nothing.
    changed_rows: the changed rows of a diff, sorted and numbered.
    writer: rows into a table, as one snapshot.
    schemas: which schema a table needs for rows, and rows cast to it.

Inside:
    version3: snapshots of format version 3, whose rows have ids.
"""
