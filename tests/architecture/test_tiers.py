"""What is left to `make soak` has a quicker witness in every run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.factories.tiers import further

TESTS = Path(__file__).resolve().parents[1]


def test_what_is_for_soak_is_asked_in_every_run_by_a_quicker_test() -> None:
    quick = {witness: _find_marks(witness) for path in TESTS.rglob("test_*.py") for witness in _list_witnesses(path)}
    assert len(quick) > 20
    assert {witness: marks for witness, marks in quick.items() if marks is None or "soak" in marks} == {}


def _list_witnesses(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == further.__name__:
            yield ast.literal_eval(node.args[0])


def _find_marks(witness: str) -> str | None:
    """Return how a test is marked, by itself and with all of its file; None where there is no such test."""
    name, _, test_name = witness.partition("::")
    path = TESTS / name
    body = ast.parse(path.read_text()).body if path.exists() else []
    test = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == test_name), None)
    if test is None:
        return None
    marks = [
        *(node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"),
        *(mark for mark in test.decorator_list if "parametrize" not in ast.unparse(mark)),
    ]
    return " ".join(map(ast.unparse, marks)).replace(further.__name__, "soak")
