"""What the import contracts cannot say: which names of a library a layer leaves alone, and what it imports for types only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

WEBAPP = Path(settings.BASE_DIR) / "webapp"
ADDRESSES_AND_HTML = re.compile(r"django\.(urls|utils\.(html|http|safestring|translation))\b|urllib\.parse\b")
PAGES = re.compile(r"webapp\.\w+\.pages\b(?<!webapp\.core\.pages)")
MODELS = re.compile(r"webapp\.\w+\.models\b|subprocess\b")


class Imports(ast.NodeVisitor):
    """The dotted names that a module imports."""

    def __init__(self, *, with_types: bool) -> None:
        self.names: list[str] = []
        self._with_types = with_types

    def visit_If(self, node: ast.If) -> None:
        is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if self._with_types or not is_for_types:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.names += [alias.name for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.names += [f"{node.module}.{alias.name}" for alias in node.names]


def list_imports(*layers: str, with_types: bool = True) -> Iterator[tuple[str, str]]:
    """Each module of some layers, whether a layer is one file or a folder, with each name that it imports."""
    for layer in layers:
        modules = sorted([*WEBAPP.glob(f"*/{layer}.py"), *WEBAPP.glob(f"*/{layer}/**/*.py")])
        assert modules, layer
        for path in modules:
            imports = Imports(with_types=with_types)
            imports.visit(ast.parse(path.read_text()))
            yield from ((str(path.relative_to(WEBAPP)), name) for name in imports.names)


def test_queries_leave_addresses_and_html_to_pages() -> None:
    assert [found for found in list_imports("queries") if ADDRESSES_AND_HTML.match(found[1])] == []


def test_endpoints_and_tasks_know_no_pages() -> None:
    assert [found for found in list_imports("api", "tasks") if PAGES.match(found[1])] == []


def test_views_endpoints_tasks_and_forms_name_models_as_types_only() -> None:
    """What they read and write goes through queries and services."""
    imports = list_imports("views", "api", "tasks", "forms", with_types=False)

    assert [found for found in imports if MODELS.match(found[1])] == []


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from django import urls", ["django.urls"]),
        ("import subprocess", ["subprocess"]),
        ("if TYPE_CHECKING:\n    from a.models import B", []),
        ("def f():\n    from a.models import B", ["a.models.B"]),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, names: list[str]) -> None:
    imports = Imports(with_types=False)

    imports.visit(ast.parse(source))

    assert imports.names == names
