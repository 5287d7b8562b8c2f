"""The specification's operations: parse, one service or query, answer.

Modules:
    http: requests and answers, whichever server carries them.
    handlers: the front door: route, refuse, authenticate, handle.
    asgi: the catalog beside Django's request cycle.
    wsgi: the catalog as a Django view.
    config: what the server can do, and tokens for engines.
    namespaces: operations on namespaces.
    tables: operations on tables.
    views: operations on views.
    scans: scans planned on the server.
    delegation: where a table's files are, and keys to them.
    pages: lists in pages.
    idempotency: the same answer to a repeated request.
    repeats: answers given again while the database is the same.
"""
