"""Pages and endpoints of builds, jobs, JobSpecs, uploads and lineage."""

from django.urls import URLPattern

page_urls: list[URLPattern] = []
api_urls: list[URLPattern] = []
