"""The Django project: composition root, nothing else knows it."""

from webapp.config.celery import app as celery_app

__all__ = ["celery_app"]
