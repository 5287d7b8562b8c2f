"""Builds: from published JobSpecs to jobs that make datasets.

Modules:
    models: published JobSpecs, builds, their jobs with inputs and outputs.
    rules: plans, fallback, states, turns: all that needs no database.
    permissions: who may see a build and start it.
    queries: everything that reads builds.
    services: everything that changes builds.
    runner: what a job process is given, and where its files are.
    pages: what each page shows, permissions already decided.
    forms: how a loaded file is read.
    serializers: builds, jobs, JobSpecs and lineage as JSON.
    views: pages, fragments and event streams.
    api: REST endpoints.
    urls: addresses of all these.
    tasks: doorbells, each with an id for one service.
    signals: what happens to builds, announced to the apps above.
    ports: what builds ask the apps above.
    apps: the app, for Django.
"""
