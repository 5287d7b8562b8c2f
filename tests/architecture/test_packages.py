"""Packages: each names its modules, and those of the engine say what others may use of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
ENGINE = ROOT / "jobs" / "engine"
FOLDERS = sorted(path.parent.name for path in ENGINE.glob("*/__init__.py"))
NOT_OURS = {"migrations", "starters"}
"""Django writes the ones, and users go on with the others."""
PACKAGES = [
    path.parent.relative_to(ROOT)
    for folder in ("webapp", "jobs")
    for path in sorted((ROOT / folder).rglob("__init__.py"))
    if not NOT_OURS & {*path.parts}
]


def read_modules(package: Path) -> dict[str, list[str]]:
    """The modules that a package's docstring names, under `Modules`, or under `Face` and `Inside`."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    parts = re.split(r"^(Modules|Face|Inside):\n", docstring, flags=re.MULTILINE)
    return {name: re.findall(r"^    (\w+): ", text, re.MULTILINE) for name, text in zip(parts[1::2], parts[2::2])}


def list_modules(package: Path) -> list[str]:
    files = [path.stem for path in package.glob("*.py") if path.stem != "__init__"]
    folders = {path.parent.name for path in package.glob("*/__init__.py")} - NOT_OURS
    return sorted({*files, *folders})


def list_imports(path: Path) -> set[str]:
    """The modules of this project that one imports, for types too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_names_exactly_its_modules(package: Path) -> None:
    named = [module for modules in read_modules(ROOT / package).values() for module in modules]
    assert sorted(named) == list_modules(ROOT / package)


@pytest.mark.parametrize("folder", FOLDERS)
def test_others_import_the_face_alone(folder: str) -> None:
    inside = {f"jobs.engine.{folder}.{module}" for module in read_modules(ENGINE / folder).get("Inside", [])}
    trespassers = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "jobs").rglob("*.py")
        if path.parent != ENGINE / folder
        for module in list_imports(path) & inside
    }
    assert not trespassers
