"""The Iceberg REST catalog: tables and views with branches. It knows no repositories and no datasets.

Modules:
    models: names and pointers; all else is in the metadata file.
    rules: what branches see and commits do, over plain metadata.
    storage: the files of tables, on this machine or in an object store.
    permissions: who may read or write which table on which branch.
    queries: tables through the lens.
    services: everything that changes namespaces, tables and views.
    api: the specification's operations.
    urls: the catalog under Django.
    signals: what the catalog announces to the apps above.
    ports: what the catalog asks them.
    apps: the app, for Django.
    management: commands of `manage.py`.
"""
