"""`move` alone writes a column of states: nothing sets it, or updates it, elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.conf import settings

from webapp.core.moves import Moves, StateField
from webapp.site.management.commands.draw_states import PLACE, draw_states

CODE = Path(settings.BASE_DIR, "webapp")
WRITERS = {"update", "bulk_update", "update_or_create"}


def list_columns() -> dict[str, str]:
    """The name of every model that has states → its column."""
    return {
        model.__name__: field.name
        for model in apps.get_models()
        for field in model._meta.fields
        if isinstance(field, StateField)
    }


def find_writes(code: ast.AST, columns: dict[str, str]) -> Iterator[int]:
    """The lines that set or update a column of states; one that other models have, too, where its own model is named."""
    for node in ast.walk(code):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS:
            values = " ".join(ast.unparse(value) for value in (*node.args, *node.keywords))
            named = {columns.get(name.id, "state") for name in ast.walk(node) if isinstance(name, ast.Name)} | {"state"}
            if any(f"{column}=" in values or f"'{column}'" in values for column in named):
                yield node.lineno
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr == "state":
            yield node.lineno


def test_only_move_writes_a_column_of_states() -> None:
    columns = list_columns()
    assert {
        "Build",
        "CodePreview",
        "Job",
        "Mail",
        "Notification",
        "PullRequest",
        "Merge",
        "Comparison",
        "Publication",
        "Query",
        "QueuedMerge",
        "Transaction",
    } == columns.keys()
    writes = [
        f"{path.relative_to(CODE)}:{line}"
        for path in CODE.rglob("*.py")
        if path != CODE / "core" / "moves.py"
        for line in find_writes(ast.parse(path.read_text()), columns)
    ]
    assert writes == []


def test_writes_are_found() -> None:
    code = """
Job.objects.filter(pk=1).update(state="x")
rows.bulk_update(rows, ["state"])
job.state = "x"
job.state, job.reason = "x", ""
Publication.objects.update(status="x")
Publication.objects.update_or_create(sha="x", defaults={"status": "x"})
Delivery.objects.update(status=200)
self.status = 500
"""
    assert sorted(find_writes(ast.parse(code), list_columns())) == [2, 3, 4, 5, 6, 7]


def test_every_column_of_states_has_the_move_of_its_name() -> None:
    for model in apps.get_models():
        for field in model._meta.fields:
            if isinstance(field, StateField):
                rows = model._default_manager.all()
                assert isinstance(rows, Moves)
                assert rows.column == field.name
            else:
                assert field.name != "state"


def test_diagrams_are_those_of_the_code() -> None:
    assert PLACE.read_text() == draw_states(), "run `manage.py draw_states`"
