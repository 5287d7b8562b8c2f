"""Nothing in the product is there for nobody: what only a test names is unused."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from vulture import Vulture

ROOT = Path(settings.BASE_DIR)
BESIDE_PYTHON = {"templates": "**/*.*", "static/js": "**/*.js", "docker": "**/*"}
CALLED_BY_NAME = {
    # Python
    *("_value_", "dont_write_bytecode", "pycache_prefix", "readinto", "seekable"),
    # Django, of models, forms, addresses, commands and middleware
    *("ordering", "indexes", "verbose_name_plural", "bound_field_class", "field_template_name"),
    *(
        "forward_related_accessor_class",
        "get_expiry_age",
        "get_expiry_date",
        "_get_session_from_db",
        "_session_key",
        "from_db_value",
        "clean_checks",
        "clean_groups",
        "clean_paths",
        "clean_shape",
        "urlpatterns",
        "handler404",
        "handler500",
    ),
    *(
        "not_found",
        "server_error",
        "resolved_by_id",
        "page_urls",
        "api_urls",
        "Command",
        "add_arguments",
        "requires_system_checks",
        "process_exception",
    ),
    # REST framework and its description
    *("accepted_media_type", "accepted_renderer", "content_negotiation_class", "format_suffix", "parser_classes"),
    *("pagination_class", "renderer_context", "select_renderer"),
    *("_get_schema_response", "get_paginated_response_schema", "get_schema_operation_parameters"),
    # Authlib
    *("client_cls",),
    # Celery, Kombu and Granian
    *("_init_shared_socket", "_purge", "_put", "connection_errors", "default_connection_params", "do_restore"),
    *("driver_name", "driver_version", "start_heartbeat"),
    # PyIceberg
    *("_build_delete_files_partition_predicate", "_deleted_data_files", "_deleted_entries", "_existing_manifests"),
    *("_read_block", "_validate_concurrency", "new_manifest_writer", "new_writer", "physical_schema"),
    # transforms of repositories
    *("ChangelogError", "changelog_arrow", "equals", "has_type", "is_in", "not_equals", "rlike"),
}
"""Names that a library, or code of people, looks up."""
FIELDS = re.compile(r"(serializers|models|protocol)")
"""Modules whose classes are fields of bodies, rows and messages: these are read and written by their names.

A computed field of a serializer is looked up as `get_` and its name."""
OF_TESTS = {"forget_all"}
"""Caches of a process that tests share, emptied between them."""


def test_everything_is_used() -> None:
    vulture = Vulture(ignore_decorators=["@register.*", "@receiver*", "@shared_task*"])
    code = [str(ROOT / name) for name in ("webapp", "jobs", "manage.py")]
    vulture.scavenge(code, exclude=["*/migrations/*", "*/starters/*"])
    named = CALLED_BY_NAME | OF_TESTS | _list_words_beside_python() | _list_written_members()
    unused = [
        f"{item.filename.relative_to(ROOT)}:{item.first_lineno} {item.typ} {item.name}"
        for item in vulture.get_unused_code(min_confidence=60)
        if item.name not in named
        and not _is_field(item.filename, item.typ, item.name)
        and item.filename.stem not in {"apps", "settings"}
    ]
    assert unused == []


def _list_words_beside_python() -> set[str]:
    places = [path for folder, pattern in BESIDE_PYTHON.items() for path in (ROOT / folder).glob(pattern)]
    texts = [path.read_text() for path in (*places, ROOT / "pyproject.toml") if path.is_file()]
    settings_text = (ROOT / "webapp" / "config" / "settings.py").read_text()
    return set(re.findall(r"\w+", " ".join([*texts, settings_text])))


def _list_written_members() -> set[str]:
    """What serializers read from rows and values: their members, or what `source` names."""
    places = [*ROOT.glob("webapp/*/serializers.py"), *ROOT.glob("webapp/*/serializers/*.py")]
    text = "\n".join(path.read_text() for path in places)
    sources = re.findall(r'source="([\w.]+)"', text)
    return {
        *re.findall(r"^    (\w+) = ", text, re.MULTILINE),
        *(name for source in sources for name in source.split(".")),
    }


def _is_field(path: Path, kind: str, name: str) -> bool:
    if not FIELDS.search(path.relative_to(ROOT).as_posix()):
        return False
    return kind in {"variable", "attribute"} or (kind == "method" and name.startswith("get_"))
