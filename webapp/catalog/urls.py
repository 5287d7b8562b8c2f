"""The catalog under Django; the dispatcher sends `/iceberg` to `api.asgi` before it gets here."""

from django.urls import URLPattern, re_path

from webapp.catalog.api import wsgi

page_urls: list[URLPattern] = [re_path(r"^iceberg(?:/.*)?$", wsgi.catalog, name="iceberg")]
api_urls: list[URLPattern] = []
