"""Two ends of a dataset's history compared: row diffs, changelogs, and who changed a row.

Modules:
    models: stored answers about the history of datasets.
    rules: what is compared, and how people ask for rows.
    diffs: stored comparisons, read for pages and API.
    queries: which ends are meant, and how far a comparison is.
    services: comparisons asked for, run, cancelled and pruned.
    pages: what each page shows.
    serializers: shapes of the REST API.
    views: pages and fragments.
    api: REST endpoints.
    urls: addresses of all these.
    tasks: doorbells, each with an id for one service.
    apps: the app, for Django.
"""
