"""Rules of comparisons that need no database.

Modules:
    states: states and kinds of comparisons.
    dataset_rules: review rules of each dataset, from pipeline.toml.
    row_keys: the key of a row as people write it.
    changelogs: whether a range of history has a changelog.
"""
