"""Settings by environment; see CONTRACT in README. Unset means the embedded default."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parents[2]
TRIBUTARY_HOME = Path(os.environ.get("TRIBUTARY_HOME", BASE_DIR / "var")).resolve()
TRIBUTARY_HOME.mkdir(parents=True, exist_ok=True, mode=0o700)
TRIBUTARY_PORT = int(os.environ.get("TRIBUTARY_PORT", "8000"))
TRIBUTARY_WAREHOUSE = os.environ.get("TRIBUTARY_WAREHOUSE", (TRIBUTARY_HOME / "warehouse").as_uri())

SECRET_KEY = os.environ.get("TRIBUTARY_SECRET_KEY", "replaced-by-the-foundation")
DEBUG = False
ALLOWED_HOSTS = ["*"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "template_partials",
    "webapp.core",
    "webapp.accounts",
    "webapp.catalog",
    "webapp.repositories",
    "webapp.datasets",
    "webapp.builds",
    "webapp.pulls",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "csp.middleware.CSPMiddleware",
]
ROOT_URLCONF = "webapp.config.urls"
WSGI_APPLICATION = "webapp.config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": TRIBUTARY_HOME / "db.sqlite3",
        "CONN_MAX_AGE": 600,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;PRAGMA cache_size=-20000;"
                "PRAGMA mmap_size=134217728;PRAGMA temp_store=MEMORY;PRAGMA journal_size_limit=27103364;"
            ),
        },
    }
}
AUTH_USER_MODEL = "accounts.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
