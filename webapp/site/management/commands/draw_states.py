"""Writes the states of every noun as diagrams and tables, from the enums that the code asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from webapp.core.moves import list_nouns
from webapp.core.states import State

PLACE = Path(settings.BASE_DIR, "webapp", "site", "guide", "states.md")
HEAD = """# States
Which state may follow which, and what each means. Written by `manage.py draw_states`; see decision 0056.
"""


class Command(BaseCommand):
    """`manage.py draw_states`: `make fix` runs it."""

    help = "Write the diagrams of states anew."

    def handle(self, *_args: Any, **_options: Any) -> None:
        """Write the document."""
        PLACE.write_text(draw_states())


def draw_states() -> str:
    """Return the document: for each noun with states its diagram and their meaning."""
    return "\n".join([HEAD, *(_draw(noun, kind) for noun, kind in sorted(list_nouns().items()))])


def _draw(noun: str, kind: type[State]) -> str:
    steps = [f"    {before} --> {after}" for before in kind for after in kind if before in after.earlier]
    ends = [f"    {state} --> [*]" for state in kind if state in kind.ends()]
    rows = [f"| `{state}` | {state.label} | {state.sentence} | {_follow(kind, state)} |" for state in kind]
    diagram = ["```mermaid", "stateDiagram-v2", f"    [*] --> {next(iter(kind))}", *steps, *ends, "```"]
    table = ["| state | on pages | meaning | may become |", "|---|---|---|---|", *rows]
    return "\n".join([f"## {noun.capitalize()}", *diagram, "", *table, ""])


def _follow(kind: type[State], state: State) -> str:
    return ", ".join(f"`{after}`" for after in kind if state in after.earlier) or "stays"
