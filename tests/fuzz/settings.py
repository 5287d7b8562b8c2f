"""The product's settings, with pages that need no collected assets."""

from webapp.config.settings import *  # noqa: F403
from webapp.config.settings import STORAGES

STORAGES = {
    **STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
