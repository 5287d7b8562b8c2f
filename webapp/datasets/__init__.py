"""Datasets, their branches and transactions, over the tables of the catalog.

Modules:
    models: datasets, their branches, and transactions.
    rules: transactions, ancestry and schemas, without a database.
    permissions: who may close a transaction.
    queries: look-ups of datasets, branches and transactions.
    services: everything that writes them.
    pages: what each page shows, permissions already decided.
    forms: the shape of what forms send.
    serializers: shapes of the REST API.
    views: pages.
    api: REST endpoints.
    urls: addresses of all these.
    middleware: the colours of the icons of a page's datasets.
    signals: what datasets announce.
    ports: what datasets ask the apps above.
    apps: the app, which hears what clients did to tables.
"""
