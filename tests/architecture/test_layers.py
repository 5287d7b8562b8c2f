"""What the import contracts cannot say: which names of a library a layer leaves alone, and what it imports for types only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
from django.conf import settings

WEBAPP = Path(settings.BASE_DIR) / "webapp"
THIN = re.compile(r"webapp\.\w+\.(views|api|tasks|forms)(\.|$)")
MODELS = re.compile(r"webapp\.\w+\.models(\.|$)")
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


def test_views_endpoints_tasks_and_forms_name_models_as_types_only() -> None:
    """What they read and write goes through queries and services."""
    graph = grimp.build_graph("webapp", include_external_packages=True, exclude_type_checking_imports=True)
    thin = {module for module in graph.modules if THIN.match(module)}

    assert len(thin) > 30
    assert [
        f"{module} imports {imported}"
        for module in sorted(thin)
        for imported in sorted(graph.find_modules_directly_imported_by(module))
        if MODELS.match(imported) or imported == "subprocess"
    ] == []
