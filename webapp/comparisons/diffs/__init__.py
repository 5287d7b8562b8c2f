"""Stored comparisons, read: a process in the sandbox decodes their files.

Modules:
    pool: the processes that read, kept for the next question.
    reader: questions to them.
    artifact: a stored row diff, opened.
    rows: pages of its rows.
    numbers: which of its rows somebody asked for, in their order.
    search: that question, as SQL.
    keyed: rows that are named by their key, and those like one of them.
    pictures: small pictures of rows, kept where somebody speaks of them.
    statistics: its column statistics.
    spread: how the changed rows spread over the values of a column.
    key_proposals: keys that a dataset without one could have.
    exports: all of it, as a file.
    overlap: rows that stored diffs have in common.
    schema: what changed between two schemas, and who breaks by it.
    changelog: pages of a stored changelog.
"""
