"""What the import contracts cannot say: which names of a library a layer leaves alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

WEBAPP = Path(settings.BASE_DIR) / "webapp"
WORDS_AND_ADDRESSES = {
    "django.urls",
    "django.utils.html",
    "django.utils.http",
    "django.utils.safestring",
    "django.utils.translation",
    "urllib.parse",
}


def list_modules(name: str) -> list[Path]:
    """All modules of a layer, whether it is one file or a folder."""
    return sorted([*WEBAPP.glob(f"*/{name}.py"), *WEBAPP.glob(f"*/{name}/**/*.py")])


def list_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_queries_return_facts_and_leave_addresses_and_html_to_pages() -> None:
    modules = list_modules("queries")

    assert len(modules) > 30
    assert [
        f"{path.relative_to(WEBAPP)}: {name}"
        for path in modules
        for name in list_imports(path)
        if name in WORDS_AND_ADDRESSES
    ] == []
