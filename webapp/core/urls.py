"""Addresses that belong to no domain."""

from django.urls import path

from webapp.core import views

page_urls = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
]
api_urls = [
    path("openapi.json", views.openapi, name="openapi"),
    path("docs", views.docs, name="docs"),
]
