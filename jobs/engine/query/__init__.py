"""SQL of people, run by DuckDB over pinned tables: it reads them and nothing else; and results described and compared.

Face:
    statement: what a text asks for: one statement that reads, and the tables that it names.
    run: `run_query`, from a request to a stored result.
    preview: what uncommitted code has written in a preview, described and compared.

Inside:
    tables: the live rows of pinned tables as views, beside which a database is locked.
    result: the rows of a result, stored up to a limit.
    difference: what differs between two stored results.
"""
