"""Pull requests: their diffs, reviews and merges, above everything else.

Modules:
    models: pull requests, their datasets, reviews, comments and merges.
    rules: approvals, changed datasets and sides, without a database.
    queries: everything that reads pull requests.
    services: everything that changes them.
    pages: what each page shows, permissions already decided.
    forms: fields of forms.
    serializers: shapes of the REST API.
    views: pages.
    api: REST endpoints.
    urls: addresses of all these.
    signals: what pull requests announce to the apps above.
    tasks: doorbells, each with an id for one service.
    errors: errors that only pull requests have.
    apps: the app, for Django.
"""
