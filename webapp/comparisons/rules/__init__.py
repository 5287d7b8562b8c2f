"""Rules of comparisons that need no database.

Modules:
    states: states and kinds of comparisons.
    dataset_rules: review rules of each dataset, from pipeline.toml.
    row_search: what people type to find rows of a diff.
    row_keys: the key of a row as people write it.
    shown_text: the text that a cell shows, as SQL.
    row_values: values that people type, as values of a column's type.
    changelogs: whether a range of history has a changelog.
"""
