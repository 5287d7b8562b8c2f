"""Users, tokens, roles and the audit log.

Modules:
    models: users, their tokens and roles, and the audit log.
    rules: what can be said of roles, scopes and the audit log without a database.
    permissions: who may do what; every app asks here.
    ports: what accounts ask the apps above them.
    queries: who is asking, and what they own.
    services: everything that writes accounts.
    pages: what people see of their own account.
    forms: fields of the account pages.
    serializers: shapes of the REST API.
    views: sign-in, settings and tokens.
    api: endpoints of tokens, sessions, users, groups and the audit log.
    urls: addresses of all these.
    middleware: who is asking, decided before any view.
    apps: the app, for Django.
    management: commands of `manage.py`.
"""
