"""Rules of datasets that need no database.

Modules:
    transactions: what may happen to a transaction, and what a new one may stand on.
    ancestry: parents of dataset branches.
    schemas: schemas, partition specs and sort orders in words.
    summaries: what a transaction did, from the summaries of its snapshots.
    snapshot_graph: the snapshots of a table as a graph.
    properties: properties of a table for people's eyes.
    snippets: lines that open a dataset elsewhere.
"""
