"""Addresses of the API's own documents."""

from django.urls import path

from webapp.core import views

api_urls = [
    path("openapi.json", views.openapi, name="openapi"),
    path("docs", views.docs, name="docs"),
]
