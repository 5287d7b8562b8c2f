"""Where an installation says whether it works."""

from django.urls import path

from webapp.runtime import views

page_urls = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
]
