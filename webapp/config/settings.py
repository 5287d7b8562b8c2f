"""Settings by environment. Unset means the embedded default, which needs no outside service."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from webapp.config.database_urls import read_database_url
from webapp.config.issuers import check_issuer
from webapp.config.locations import read_locations
from webapp.runtime.handed_over import find_home, read_or_make_key, read_secret
from webapp.runtime.privileges import hide_memory

# Before the first secret is read.
hide_memory()

BASE_DIR = Path(__file__).resolve().parents[2]
# Sandboxed jobs run as other users: nothing but their own folders, bound into their sandbox, may be reachable for them.
TRIBUTARY_HOME = find_home()
TRIBUTARY_PORT = int(os.environ.get("TRIBUTARY_PORT") or 8000)
# Where people and programs find the installation. `https://…` is served by a proxy in front, and everything that belongs
# to that follows from it: secure cookies, trusted origins, redirects, HSTS, whose word about clients is taken.
TRIBUTARY_URL = (os.environ.get("TRIBUTARY_URL") or f"http://127.0.0.1:{TRIBUTARY_PORT}").rstrip("/")
BEHIND_TLS = TRIBUTARY_URL.startswith("https://")
# Processes of the web part; more than one core each they cannot use.
TRIBUTARY_WEB_WORKERS = int(os.environ.get("TRIBUTARY_WEB_WORKERS") or min(2, len(os.sched_getaffinity(0))))
TRIBUTARY_WAREHOUSE = os.environ.get("TRIBUTARY_WAREHOUSE") or (TRIBUTARY_HOME / "warehouse").as_uri()
# Folders beside the warehouse below which clients may say where a new table lies; none: the catalog alone says it.
TRIBUTARY_LOCATIONS = read_locations(
    os.environ.get("TRIBUTARY_LOCATIONS", ""), warehouse=TRIBUTARY_WAREHOUSE, home=TRIBUTARY_HOME
)
# An `s3:` warehouse: where the store is, the installation's own keys, and the role by which it gives out narrower ones.
TRIBUTARY_S3_ENDPOINT = os.environ.get("TRIBUTARY_S3_ENDPOINT", "")
TRIBUTARY_S3_REGION = os.environ.get("TRIBUTARY_S3_REGION") or os.environ.get("AWS_REGION") or "us-east-1"
TRIBUTARY_S3_PATH_STYLE = (os.environ.get("TRIBUTARY_S3_PATH_STYLE") or str(int(bool(TRIBUTARY_S3_ENDPOINT)))) != "0"
TRIBUTARY_S3_ROLE = os.environ.get("TRIBUTARY_S3_ROLE", "")
TRIBUTARY_S3_STS_ENDPOINT = os.environ.get("TRIBUTARY_S3_STS_ENDPOINT") or TRIBUTARY_S3_ENDPOINT
TRIBUTARY_S3_SESSION_SECONDS = int(os.environ.get("TRIBUTARY_S3_SESSION_SECONDS") or 3600)
# For stores without roles: jobs and clients get the installation's own keys, and with them the whole warehouse.
TRIBUTARY_S3_SHARE_KEYS = os.environ.get("TRIBUTARY_S3_SHARE_KEYS", "0") == "1"
# Hosts of this machine or its private networks that webhooks may lead to; all others of these are refused.
TRIBUTARY_WEBHOOK_HOSTS = frozenset(os.environ.get("TRIBUTARY_WEBHOOK_HOSTS", "").lower().replace(",", " ").split())
# Unset, the keys are those that the machine has: a profile, or the role of the instance.
TRIBUTARY_S3_KEYS = {
    name: read_secret(variable)
    for name, variable in {
        "aws_access_key_id": "TRIBUTARY_S3_ACCESS_KEY_ID",
        "aws_secret_access_key": "TRIBUTARY_S3_SECRET_ACCESS_KEY",
    }.items()
    if read_secret(variable)
}
# A person's transaction to which nothing was written for so long may be aborted by whoever may write there; 0: never.
TRIBUTARY_IDLE_TRANSACTION_HOURS = float(os.environ.get("TRIBUTARY_IDLE_TRANSACTION_HOURS") or 24)
# Files in tables' folders that nothing refers to are removed when they are so old; 0: never.
TRIBUTARY_DELETED_BRANCH_HOURS = float(os.environ.get("TRIBUTARY_DELETED_BRANCH_HOURS") or 168)
TRIBUTARY_ORPHAN_HOURS = float(os.environ.get("TRIBUTARY_ORPHAN_HOURS") or 72)
# Room that is kept on the disks of home and warehouse for small writes; work that writes much waits below it.
TRIBUTARY_RESERVE_BYTES = int(os.environ.get("TRIBUTARY_RESERVE_BYTES") or 1024**3)
# Proxies whose word about the client's address and scheme is taken: addresses and networks.
TRIBUTARY_PROXIES = (
    (os.environ.get("TRIBUTARY_PROXIES") or ("127.0.0.1 ::1" if BEHIND_TLS else "")).replace(",", " ").split()
)
# The largest file that is uploaded in one request; while it is taken in it needs twice that in the home.
TRIBUTARY_UPLOAD_BYTES = int(os.environ.get("TRIBUTARY_UPLOAD_BYTES") or 8 * 1024**3)
# How much of the disk one repository may take: its Git objects, and the data of its datasets; 0: as much as there is.
# Without a value its data may take half of the warehouse's disk, or as much as there is of an object store.
TRIBUTARY_REPOSITORY_GIT_BYTES = int(os.environ.get("TRIBUTARY_REPOSITORY_GIT_BYTES") or 10 * 1024**3)
_repository_data_bytes = os.environ.get("TRIBUTARY_REPOSITORY_DATA_BYTES")
TRIBUTARY_REPOSITORY_DATA_BYTES = int(_repository_data_bytes) if _repository_data_bytes else None
TRIBUTARY_DEMO = os.environ.get("TRIBUTARY_DEMO", "1") != "0"
SPARK_REMOTE = read_secret("SPARK_REMOTE")
# Repositories whose Spark transforms may run on the server of SPARK_REMOTE, which keeps nobody apart; none named: all.
TRIBUTARY_SPARK_REPOSITORIES = frozenset(os.environ.get("TRIBUTARY_SPARK_REPOSITORIES", "").replace(",", " ").split())
# More options of the embedded Spark server's Java machine.
TRIBUTARY_SPARK_JAVA_OPTIONS = os.environ.get("TRIBUTARY_SPARK_JAVA_OPTIONS", "")
# What the embedded Spark server sees of this machine's folders; the supervisor says so, and nobody else.
TRIBUTARY_SPARK_FOLDER = os.environ.get("TRIBUTARY_SPARK_FOLDER", "")
# The socket at which that server is given folders of tables; where there is none it reads and writes what its user may.
TRIBUTARY_SPARK_OPENER = os.environ.get("TRIBUTARY_SPARK_OPENER", "")
# Where jobs reach the catalog, when that is not this machine's loopback: several web hosts behind one name.
TRIBUTARY_CATALOG_URI = os.environ.get("TRIBUTARY_CATALOG_URI") or f"http://127.0.0.1:{TRIBUTARY_PORT}/iceberg"
# How long any job may run, instead of its size's own limit.
TRIBUTARY_JOB_SECONDS = int(os.environ.get("TRIBUTARY_JOB_SECONDS") or 0) or None
# How much any job may write in all, instead of its size's own limit.
TRIBUTARY_JOB_MEMORY_BYTES = int(os.environ.get("TRIBUTARY_JOB_MEMORY_BYTES") or 0) or None
TRIBUTARY_JOB_DISK_BYTES = int(os.environ.get("TRIBUTARY_JOB_DISK_BYTES") or 0) or None
# How many days the audit log keeps reads and refusals, and all else; 0: for ever.
TRIBUTARY_AUDIT_READ_DAYS = int(os.environ.get("TRIBUTARY_AUDIT_READ_DAYS") or 180)
TRIBUTARY_AUDIT_DAYS = int(os.environ.get("TRIBUTARY_AUDIT_DAYS") or 0)
# Who compares rows: embedded, spark, or auto, which asks Spark for what is larger than so many decoded bytes.
TRIBUTARY_EXECUTOR = os.environ.get("TRIBUTARY_EXECUTOR") or "auto"
TRIBUTARY_EMBEDDED_BYTES = int(os.environ.get("TRIBUTARY_EMBEDDED_BYTES") or 256 * 1024 * 1024)
TRIBUTARY_ADMIN_PASSWORD = read_secret("TRIBUTARY_ADMIN_PASSWORD")
# The OpenID Connect provider by which people sign in; without an issuer there is none.
TRIBUTARY_OIDC_ISSUER = os.environ.get("TRIBUTARY_OIDC_ISSUER", "").strip()
TRIBUTARY_OIDC_CLIENT_ID = os.environ.get("TRIBUTARY_OIDC_CLIENT_ID", "")
# Without one the client is a public one, which PKCE alone protects.
TRIBUTARY_OIDC_CLIENT_SECRET = read_secret("TRIBUTARY_OIDC_CLIENT_SECRET")
check_issuer(TRIBUTARY_OIDC_ISSUER, client_id=TRIBUTARY_OIDC_CLIENT_ID)
TRIBUTARY_OIDC_NAME = os.environ.get("TRIBUTARY_OIDC_NAME") or urlsplit(TRIBUTARY_OIDC_ISSUER).hostname or ""
TRIBUTARY_OIDC_SCOPES = (os.environ.get("TRIBUTARY_OIDC_SCOPES") or "openid email profile").replace(",", " ").split()
# The claim that lists groups; which of them are taken over (none named: all); and the one whose members are admins.
TRIBUTARY_OIDC_GROUPS_CLAIM = os.environ.get("TRIBUTARY_OIDC_GROUPS_CLAIM") or "groups"
TRIBUTARY_OIDC_GROUPS = frozenset(
    name.strip() for name in os.environ.get("TRIBUTARY_OIDC_GROUPS", "").split(",") if name.strip()
)
TRIBUTARY_OIDC_ADMIN_GROUP = os.environ.get("TRIBUTARY_OIDC_ADMIN_GROUP", "").strip()
# Passwords open the accounts of admins alone, so that an installation whose provider is away can still be looked after.
TRIBUTARY_OIDC_ONLY = os.environ.get("TRIBUTARY_OIDC_ONLY", "0") == "1" and bool(TRIBUTARY_OIDC_ISSUER)

# The mail server that takes notifications; unset: nobody is told anything by mail.
EMAIL_HOST = os.environ.get("EMAIL_HOST", "")
EMAIL_PORT = int(os.environ.get("EMAIL_PORT") or 25)
EMAIL_HOST_USER = os.environ.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = read_secret("EMAIL_HOST_PASSWORD")
# STARTTLS, or TLS from the first byte.
EMAIL_USE_TLS = os.environ.get("EMAIL_USE_TLS", "0") == "1"
EMAIL_USE_SSL = os.environ.get("EMAIL_USE_SSL", "0") == "1"
# Shorter than the lease of a mail: who waits for its server longer has not died.
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = os.environ.get("DEFAULT_FROM_EMAIL") or f"tributary@{urlsplit(TRIBUTARY_URL).hostname}"

SECRET_KEY = read_secret("TRIBUTARY_SECRET_KEY") or read_or_make_key(TRIBUTARY_HOME / "secret-key")
DEBUG = False
ALLOWED_HOSTS = [
    name
    for name in (
        *os.environ.get("TRIBUTARY_HOSTS", "localhost,127.0.0.1,[::1]").split(","),
        urlsplit(TRIBUTARY_URL).hostname or "",
    )
    if name
]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.forms",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "template_partials",
    "csp",
    "webapp.core",
    "webapp.runtime",
    "webapp.dispatch",
    "webapp.accounts",
    "webapp.catalog",
    "webapp.repositories",
    "webapp.datasets",
    "webapp.builds",
    "webapp.comparisons",
    "webapp.sql",
    "webapp.previews",
    "webapp.pulls",
    "webapp.notices",
    "webapp.site",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "webapp.core.http.ErrorMiddleware",
    "webapp.accounts.middleware.PrincipalMiddleware",
    "webapp.core.once.AskOnceMiddleware",
    "webapp.core.budgets.BudgetMiddleware",
    "webapp.core.drawn_pages.DrawnPages",
    "webapp.datasets.middleware.DatasetColours",
]
ROOT_URLCONF = "webapp.config.urls"
WSGI_APPLICATION = "webapp.config.wsgi.application"
APPEND_SLASH = False
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
            ],
        },
    },
]

FORM_RENDERER = "webapp.core.forms.FormRenderer"


DATABASES = {"default": read_database_url(read_secret("DATABASE_URL"), home=TRIBUTARY_HOME)}
AUTH_USER_MODEL = "accounts.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "webapp.accounts.services.passwords.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
# Said, because Django's default would put another zone into the environment and so into the worker's log times.
TIME_ZONE = "UTC"
USE_TZ = True
LANGUAGE_CODE = "en-gb"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = BASE_DIR / "staticfiles"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
WHITENOISE_MANIFEST_STRICT = False

SESSION_ENGINE = "webapp.core.sessions"
# A session ends so long after its last request, and so long after its sign-in.
TRIBUTARY_SESSION_IDLE_HOURS = float(os.environ.get("TRIBUTARY_SESSION_IDLE_HOURS") or 168)
TRIBUTARY_SESSION_HOURS = float(os.environ.get("TRIBUTARY_SESSION_HOURS") or 720)
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = True
# Several installations on one machine share the host name: each has its own cookies.
SESSION_COOKIE_NAME = f"tributary_session_{TRIBUTARY_PORT}"
CSRF_COOKIE_NAME = f"tributary_csrf_{TRIBUTARY_PORT}"
DEVICE_COOKIE_NAME = f"tributary_device_{TRIBUTARY_PORT}"
SECURE_CONTENT_TYPE_NOSNIFF = True
if BEHIND_TLS:
    # Taken from trusted proxies only: the event loop drops what anybody else says.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz)$"]
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    CSRF_TRUSTED_ORIGINS = [f"https://{urlsplit(TRIBUTARY_URL).netloc}"]
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    # Other names of the domain are not ours to bind to TLS, nor to put on browsers' lists for good.
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 20 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2000
FILE_UPLOAD_TEMP_DIR = TRIBUTARY_HOME / "uploads"
FILE_UPLOAD_HANDLERS = [
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "webapp.core.uploads.UploadHandler",
]
FILE_UPLOAD_TEMP_DIR.mkdir(exist_ok=True, mode=0o700)
CONTENT_SECURITY_POLICY = {
    "EXCLUDE_URL_PREFIXES": (),
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "font-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    },
}

REST_FRAMEWORK = {
    # `request.principal` is decided by the middleware; ApiView checks it and the session's CSRF token.
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "UNAUTHENTICATED_USER": None,
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapp.core.json_bodies.JsonBodyParser"],
    "EXCEPTION_HANDLER": "webapp.core.api.handle_exception",
    "DEFAULT_SCHEMA_CLASS": "webapp.core.openapi.ApiSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tributary",
    "DESCRIPTION": "Pull requests for data: repositories, builds, datasets and pull requests.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PUBLIC": True,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    # What is sent and what is answered differ in which members must be there.
    "COMPONENT_SPLIT_REQUEST": True,
    # Choices stay where they are used: nine members called `state` have no good common names.
    "POSTPROCESSING_HOOKS": ["webapp.core.openapi.finish_document"],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "APPEND_COMPONENTS": {
        "securitySchemes": {
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of Settings → Tokens or of POST /tokens.",
            },
            "session": {
                "type": "apiKey",
                "in": "cookie",
                "name": SESSION_COOKIE_NAME,
                "description": "A browser's session; writing also takes the header X-CSRFToken.",
            },
            "password": {"type": "http", "scheme": "basic", "description": "User name and password, to make a token."},
        },
    },
    "SECURITY": [{"token": []}, {"session": []}],
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
}

# Without an address the broker is a file of this machine.
CELERY_BROKER_URL = read_secret("CELERY_BROKER_URL")
if not CELERY_BROKER_URL:
    CELERY_BROKER_TRANSPORT = "webapp.runtime.broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "path": str(TRIBUTARY_HOME / "broker" / "messages.sqlite3"),
        "polling_interval": 0.1,
    }
# A worker waits for its broker for as long as it takes.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_DEFAULT_QUEUE = "quick"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_CONSUMER = "webapp.config.consumer:ToughConsumer"
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = "UTC"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname:<7} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "webapp": {"level": "INFO"},
        "django": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "django.request": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
        # A host or cookie that anybody makes up is refused with a 400; a traceback of each would fill the disk.
        "django.security": {"handlers": ["stderr"], "level": "CRITICAL", "propagate": False},
        "celery": {"level": "WARNING"},
    },
}
