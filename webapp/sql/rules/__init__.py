"""What can be said of queries without a database.

Modules:
    states: where a query stands.
    names: what a name of a table in a text of SQL means.
    differences: how two results of one query stand to each other.
    checks: files that hold a query and what is expected of it.
"""
