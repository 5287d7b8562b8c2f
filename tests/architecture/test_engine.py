"""The folders of the engine: each says what is in it, and what others may use of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
ENGINE = ROOT / "jobs" / "engine"
FOLDERS = ("read", "plan", "measure", "compare", "write", "spark")


def read_modules(folder: str) -> dict[str, list[str]]:
    """The modules that a folder's docstring names, under `Face` and `Inside`."""
    docstring = ast.get_docstring(ast.parse((ENGINE / folder / "__init__.py").read_text())) or ""
    parts = re.split(r"^(Face|Inside):\n", docstring, flags=re.MULTILINE)
    return {name: re.findall(r"^    (\w+): ", text, re.MULTILINE) for name, text in zip(parts[1::2], parts[2::2])}


def list_imports(path: Path) -> set[str]:
    """The modules of this project that one imports, for types too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_names_exactly_its_modules(folder: str) -> None:
    named = [module for modules in read_modules(folder).values() for module in modules]
    assert sorted(named) == sorted(path.stem for path in (ENGINE / folder).glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("folder", FOLDERS)
def test_others_import_the_face_alone(folder: str) -> None:
    inside = {f"jobs.engine.{folder}.{module}" for module in read_modules(folder).get("Inside", [])}
    trespassers = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in (ROOT / "jobs").rglob("*.py")
        if path.parent != ENGINE / folder
        for module in list_imports(path) & inside
    }
    assert not trespassers
