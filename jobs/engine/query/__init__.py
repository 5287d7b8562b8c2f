"""SQL of people, run by DuckDB over pinned tables: it reads them and nothing else; and results described and compared.

Face:
    statement: what a text asks for: one statement that reads, and the tables that it names.
    run: `run_query`, from a request to a stored result.
    piped: the tables of a query as another process sends them.
    serving: that other process: the visible columns of pinned tables.
    preview: what uncommitted code has written in a preview, described and compared.

Inside:
    functions: the functions that a query can call.
    tables: the tables of a query as views of a locked database.
    result: the rows of a result, stored up to a limit.
    difference: what differs between two stored results.
"""
