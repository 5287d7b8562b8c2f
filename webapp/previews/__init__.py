"""Previews: transforms run over samples of their inputs before they are committed; nothing is written, and little is kept.

Modules:
    models: previews that were asked for.
    rules: states of a preview, and its steps.
    queries: who may see a preview, and the rows of its outputs.
    services: previews started, run, stopped and removed.
    pages: what the part beside the editor shows.
    serializers: shapes of the REST API.
    views: pages.
    api: REST endpoints.
    urls: addresses of all these.
    tasks: doorbells, each with an id for one service.
    apps: the app, for Django.
"""
