"""SQL of people over what branches of data hold: it reads, in the sandbox and by their rights, and its result is kept for a time.

Modules:
    models: queries that were run.
    rules: states of a query, and what a name in its text means.
    queries: which tables a query reads, and the rows of its result.
    signals: what is said to the apps above when a query ends.
    services: queries started, run, cancelled and removed.
    pages: what each page shows.
    serializers: shapes of the REST API.
    forms: fields of the page.
    views: pages.
    api: REST endpoints.
    urls: addresses of all these.
    tasks: doorbells, each with an id for one service.
    apps: the app, for Django.
"""
