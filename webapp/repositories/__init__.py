"""Repositories, branches and commits: Git with users, rights and history in rows.

Modules:
    models: repositories, branches, commits, protections and webhooks.
    rules: names, ancestry, checks and histories, without a database.
    permissions: who may move which branch.
    queries: everything that reads a repository.
    services: everything that changes one.
    pages: what each page shows, permissions already decided.
    forms: the shape of what forms send.
    serializers: shapes of the REST API.
    views: pages, and Git over HTTP.
    api: REST endpoints.
    urls: addresses of all these.
    tasks: doorbells, each with an id for one service.
    signals: what repositories announce to the apps above.
    ports: what repositories ask the apps above.
    errors: Git's refusals as answers of the product.
    apps: the app, for Django.
    management: commands of `manage.py`.
"""
