"""What is known of the libraries that the code of a repository imports: what they reach that their caller does not name."""

from __future__ import annotations

import sys

UNDERSTOOD = frozenset(
    {
        "__future__", "abc", "argparse", "array", "ast", "asyncio", "atexit", "base64", "binascii", "bisect", "builtins",
        "bz2", "calendar", "cmath", "collections", "colorsys", "concurrent", "configparser", "contextlib", "contextvars",
        "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "email", "enum", "errno", "fnmatch", "fractions",
        "functools", "getpass", "glob", "graphlib", "gzip", "hashlib", "heapq", "hmac", "html", "http", "importlib", "inspect",
        "io", "ipaddress", "itertools", "json", "keyword", "linecache", "locale", "logging", "lzma", "math", "mimetypes",
        "ntpath", "numbers", "operator", "os", "pathlib", "pickle", "pkgutil", "platform", "posixpath", "pprint", "queue",
        "random", "re", "reprlib", "secrets", "shlex", "shutil", "socket", "sqlite3", "ssl", "stat", "statistics", "string",
        "struct", "subprocess", "sys", "tarfile", "tempfile", "textwrap", "threading", "time", "tomllib", "traceback", "types",
        "typing", "unicodedata", "urllib", "uuid", "warnings", "weakref", "xml", "zipfile", "zlib", "zoneinfo",
        "dateutil", "duckdb", "numpy", "pandas", "polars", "py4j", "pyarrow", "pyiceberg", "pyspark", "pytz", "transforms",
        "typing_extensions", "tzdata",
    }
)  # fmt: skip
"""They reach only what their caller names, or what the names in `jobs.transforms.reachable` say."""
_QUIET = frozenset(
    {
        "annotated_types", "attr", "attrs", "boto3", "botocore", "cachetools", "certifi", "charset_normalizer", "click",
        "dotenv", "fsspec", "httpx", "idna", "jinja2", "jmespath", "markupsafe", "more_itertools", "msgspec", "networkx",
        "orjson", "packaging", "pydantic", "pydantic_core", "pydantic_settings", "pyparsing", "regex", "requests", "s3fs",
        "scipy", "six", "sklearn", "slugify", "sortedcontainers", "sqlglot", "sympy", "tomli", "tqdm", "urllib3", "xmltodict",
        "yaml", "zstandard",
    }
)  # fmt: skip
"""They may take names of code from anywhere, but read neither its text nor its line numbers."""


PARTS = frozenset({"logging.config", "logging.handlers", "concurrent.futures.process", "importlib.metadata"})
"""Modules of libraries that reach more than the rest of these."""


def takes_names(library: str) -> bool:
    """Return whether a library may reach code that its caller does not name."""
    return library not in UNDERSTOOD


def reads_text(library: str) -> bool:
    """Return whether a library may read comments or line numbers, as those of Python for debugging do."""
    return library not in UNDERSTOOD | _QUIET


def is_unknown(library: str) -> bool:
    """Return whether a library may look for files in a way that nothing reports, since it may be written in C."""
    return library not in UNDERSTOOD | _QUIET | PARTS | sys.stdlib_module_names
