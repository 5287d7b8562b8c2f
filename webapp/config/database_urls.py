"""From DATABASE_URL to Django's settings of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

KEPT_S = 600
"""A connection costs a handshake or its PRAGMAs: opening one per request halves the rate of small requests."""
WAIT_S = 20
"""So long a writer waits for another one before the database counts as busy; the same on both databases."""
_POSTGRES_DEFAULTS = {
    "connect_timeout": "5",
    # A host that went away is noticed in half a minute, not after the hours that the kernel allows.
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "options": f"-c lock_timeout={WAIT_S}s",
}


def read_database_url(url: str, *, home: Path) -> dict[str, Any]:
    """Return Django's settings of a database; an empty URL is the SQLite file in the home.

    `postgresql://user:password@host:5432/name?sslmode=require`; libpq's parameters are allowed in the query, and a
    Unix socket's folder is its parameter `host`: `postgresql://user@/name?host=/run/postgresql`.
    """
    if not url:
        return _sqlite(str(home / "db.sqlite3"), home=home)
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return _sqlite("/" + unquote(parts.path).lstrip("/"), home=home)
    if parts.scheme in ("postgres", "postgresql"):
        return _postgres(url)
    message = f"DATABASE_URL starts with {parts.scheme}://; sqlite:// and postgresql:// are known"
    raise ValueError(message)


def _sqlite(path: str, *, home: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        # In memory, threads of a test would share one cache, which locks whole tables against readers: not what runs.
        "TEST": {"NAME": str(home / "test.sqlite3")},
        "CONN_MAX_AGE": KEPT_S,
        "OPTIONS": {
            # WAL with IMMEDIATE: without the latter a transaction that reads before it writes fails at once.
            "transaction_mode": "IMMEDIATE",
            "timeout": WAIT_S,
            # Each thread has a connection with a cache of its own, which is left at 2 MB: the file is mapped, once for all.
            "init_command": (
                "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;PRAGMA foreign_keys=ON;"
                "PRAGMA mmap_size=134217728;PRAGMA temp_store=MEMORY;PRAGMA journal_size_limit=27103364;"
            ),
        },
    }


def _postgres(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    name = unquote(parts.path.lstrip("/"))
    if not name:
        message = "DATABASE_URL names no database: postgresql://user:password@host/name"
        raise ValueError(message)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", unquote(parts.hostname or "")),
        "PORT": options.pop("port", str(parts.port or "")),
        "CONN_MAX_AGE": KEPT_S,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**_POSTGRES_DEFAULTS, **options},
    }
