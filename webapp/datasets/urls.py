"""URLs of datasets: pages and API."""

from django.urls import URLPattern

page_urls: list[URLPattern] = []
api_urls: list[URLPattern] = []
