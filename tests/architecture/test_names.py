"""Names that people rely on: one module layout for every app, addresses that match their templates."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

ROOT = Path(settings.BASE_DIR)
APPS = sorted({path.parent.name for path in (ROOT / "webapp").glob("*/apps.py")} - {"core", "dispatch", "runtime"})
"""Those of the domain; what everything stands on has modules of its own kinds."""
VAGUE = {"one", "each", "it", "found", "made", "told", "asked", "wanted", "kept", "known", "given"}
"""Words that say what happened to a thing and not what it is."""
KNOWN = {
    *(
        "__init__",
        "apps",
        "urls",
        "views",
        "api",
        "tasks",
        "forms",
        "pages",
        "serializers",
        "services",
        "queries",
        "permissions",
    ),
    *(
        "diffs",
        "runner",
        "storage",
        "models",
        "signals",
        "ports",
        "rules",
        "errors",
        "migrations",
        "management",
        "templatetags",
    ),
    *("middleware", "starters", "guide"),
}
CONTRACT_PAGES = {
    *(
        "home",
        "repository",
        "repository-tree",
        "repository-blob",
        "repository-edit",
        "repository-commits",
        "repository-commit",
    ),
    *("repository-branches", "repository-jobspecs", "repository-datasets", "repository-builds", "repository-pulls"),
    *(
        "repository-settings",
        "pull-new",
        "pull",
        "pull-commits",
        "pull-code",
        "pull-schema",
        "pull-data",
        "pull-builds",
    ),
    *("dataset", "datasets", "build", "builds", "build-new", "pulls", "tokens", "settings", "login"),
}


def list_url_names(patterns: list[URLPattern | URLResolver]) -> set[str]:
    """Every name in the table of addresses."""
    names: set[str] = set()
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            names |= list_url_names(pattern.url_patterns)
        elif pattern.name:
            names.add(pattern.name)
    return names


@pytest.mark.parametrize("app", APPS)
def test_app_has_only_modules_with_known_names(app: str) -> None:
    found = {
        path.stem
        for path in (ROOT / "webapp" / app).iterdir()
        if path.name != "__pycache__" and path.suffix in ("", ".py")
    }

    assert found - KNOWN == set()


def test_every_page_of_the_contract_has_its_address() -> None:
    assert CONTRACT_PAGES - list_url_names(get_resolver().url_patterns) == set()


@pytest.mark.parametrize("app", APPS)
def test_services_take_at_most_their_subject_by_position(app: str) -> None:
    if find_spec(f"webapp.{app}.services") is None:
        pytest.skip("no services")
    module = import_module(f"webapp.{app}.services")
    functions = [
        (name, function)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__.startswith(f"webapp.{app}.services") and not name.startswith("_")
    ]

    loose = [
        name
        for name, function in functions
        if sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in inspect.signature(function).parameters.values()) > 1
        or "by" in inspect.getfullargspec(function).args
    ]

    assert loose == []


@pytest.mark.parametrize("app", [*APPS, "core"])
def test_public_services_and_queries_say_what_they_do(app: str) -> None:
    silent = []
    for layer in ("services", "queries", "permissions"):
        if find_spec(f"webapp.{app}.{layer}") is None:
            continue
        module = import_module(f"webapp.{app}.{layer}")
        silent += [
            f"{layer}.{name}"
            for name, function in inspect.getmembers(module, inspect.isfunction)
            if function.__module__.startswith(f"webapp.{app}.") and not name.startswith("_") and not function.__doc__
        ]

    assert silent == []


def test_docstrings_of_functions_say_what_they_do_in_the_imperative() -> None:
    """Ruff knows many first words that are no verbs, but not these. Properties are nouns, and so are datasets of starters."""
    no_verbs = {"Whether", "Where", "How", "Why", "Which", "Who", "Every", "All", "Those", "Rows", "SQL"}
    others = []
    for folder in ("webapp", "jobs"):
        for path in (path for path in (ROOT / folder).rglob("*.py") if "starters" not in path.parts):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and not any(
                    "property" in ast.unparse(decorator) for decorator in node.decorator_list
                ):
                    docstring = ast.get_docstring(node) or ""
                    others += [f"{path.relative_to(ROOT)}: {docstring}"] * (docstring.partition(" ")[0] in no_verbs)

    assert others == []


def test_a_class_has_a_name_of_its_own() -> None:
    """Whoever looks a name up finds one thing. Django finds commands and migrations by their module, not by their class."""
    modules: dict[str, list[str]] = {}
    for folder in ("webapp", "jobs"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and node.name not in ("Command", "Migration"):
                    modules.setdefault(node.name, []).append(str(path.relative_to(ROOT)))

    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}


def list_vague_names(source: str) -> list[str]:
    """Return the variables and parameters of a module that are called by what happened to them; attributes are none."""
    nodes = list(ast.walk(ast.parse(source)))
    attributes = {
        id(node)
        for body in (node.body for node in nodes if isinstance(node, ast.ClassDef))
        for line in body
        if isinstance(line, ast.Assign | ast.AnnAssign)
        for node in ast.walk(line)
    }
    names = [
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in attributes
    ]
    return [name for name in [*names, *(node.arg for node in nodes if isinstance(node, ast.arg))] if name in VAGUE]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("for one in jobs: pass", ["one"]),
        ("found, rows = read()", ["found"]),
        ("def read(*, known): pass", ["known"]),
        ("jobs = [each for each in rows]", ["each"]),
        ("class End:\n    asked: str\n    known = set()", []),
        ("for job in jobs: job.found = True", []),
    ],
)
def test_vague_names_are_found_wherever_they_stand(source: str, names: list[str]) -> None:
    assert list_vague_names(source) == names


def test_variables_and_parameters_are_nouns() -> None:
    modules = [
        path
        for folder in ("webapp", "jobs")
        for path in (ROOT / folder).rglob("*.py")
        if not {"migrations", "starters"} & {*path.parts}
    ]

    assert {
        str(path.relative_to(ROOT)): names for path in modules if (names := list_vague_names(path.read_text()))
    } == {}
