"""Queries return facts: what is said of them stands in `rules`, `pages` and templates, which REST and pages share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

WEBAPP = Path(settings.BASE_DIR) / "webapp"
SENTENCE = re.compile(r"[A-Za-z]+ [a-z]+ [a-z]+")
ADDRESS = re.compile(r"/[a-z]")


class Texts(ast.NodeVisitor):
    """The texts of a module that may reach a reader as an answer; what is put into one is written {}.

    Docstrings, what a filter's parameter is documented with, and messages of errors that are raised are none.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []

    def visit_Raise(self, node: ast.Raise) -> None:
        """A refusal is no answer."""

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "message" for target in node.targets):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not (isinstance(node.func, ast.Name) and node.func.id == "offer"):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.texts.append("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.texts.append(node.value)


def list_wordings(source: str) -> list[str]:
    """Return the sentences and addresses of a module."""
    texts = Texts()
    texts.visit(ast.parse(source))
    return [text for text in texts.texts if SENTENCE.search(text) or ADDRESS.match(text)]


def list_queries() -> Iterator[Path]:
    yield from sorted([*WEBAPP.glob("*/queries.py"), *WEBAPP.glob("*/queries/**/*.py")])


def test_queries_leave_sentences_and_addresses_to_rules_and_pages() -> None:
    paths = list(list_queries())

    assert len(paths) > 30
    assert {str(path.relative_to(WEBAPP)): said for path in paths if (said := list_wordings(path.read_text()))} == {}


@pytest.mark.parametrize(
    ("source", "wordings"),
    [
        ('def why(): return f"{name} is not built"', ["{} is not built"]),
        ('NOTE = "nothing was built"', ["nothing was built"]),
        ('url = f"/builds/{build.pk}"', ["/builds/{}"]),
        ("note = f\"{'not yet built' if late else 1}\"", ["not yet built"]),
        ('"""What this module does."""', []),
        ('raise NotFound("There is no such thing.")', []),
        ('message = f"There is no {name}."\nraise NotFound(message)', []),
        ('q: str = offer("title", help_text="words in the title")', []),
        ('rows.order_by("-pk").values("state")', []),
    ],
)
def test_what_is_said_is_found_wherever_it_stands(source: str, wordings: list[str]) -> None:
    assert list_wordings(source) == wordings
