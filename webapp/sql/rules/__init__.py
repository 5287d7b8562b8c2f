"""What can be said of queries without a database.

Modules:
    states: where a query stands.
    names: what a name of a table in a text of SQL means.
"""
