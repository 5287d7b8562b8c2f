"""What is known of previews without a database.

Modules:
    states: where a preview stands, and what it is doing.
    transforms: which of the declared transforms a preview runs.
"""
