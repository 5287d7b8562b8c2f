"""The Django project: composition root, nothing else knows it.

Modules:
    settings: settings by environment; unset means an embedded default.
    database_urls: from DATABASE_URL to Django's settings of a database.
    issuers: whether TRIBUTARY_OIDC_ISSUER can be used.
    locations: from TRIBUTARY_LOCATIONS to prefixes where tables may lie.
    urls: the root of all addresses.
    asgi: one port: catalog and Git beside Django.
    wsgi: Django alone, for servers that speak WSGI.
    web: the web part as a program.
    celery: the worker's application.
    consumer: a worker's consumer that lives through broken messages.
"""

from webapp.config.celery import app as celery_app

__all__ = ["celery_app"]
