"""Rules of datasets that need no database.

Modules:
    transactions: what may happen to a transaction, and what a new one may stand on.
    ancestry: parents of dataset branches.
    schemas: schemas, partition specs and sort orders in words.
    summaries: what a transaction did, from the summaries of its snapshots.
    snapshot_graph: the snapshots of a table as a graph.
    properties: properties of a table for people's eyes.
    row_search: what people type to find rows.
    row_conditions: a search as SQL conditions.
    row_columns: the columns of a table, as a search names them.
    shown_text: the text that a cell shows, as SQL.
    row_values: values that people type, as values of a column's type.
    snippets: lines that open a dataset elsewhere.
"""
