"""What an installation says of itself at a moment: what has not ended, what each part uses."""

from __future__ import annotations

from tests.factories.postgres import ask_database
from tests.factories.supervised import SupervisedStack, list_descendants
from tests.faults.usage import Usage


def list_unfinished(stack: SupervisedStack, builds: list[int] | None = None) -> list[str]:
    """Return what has not ended: builds, of these or any, and merges; without a choice of builds row diffs, too."""
    chosen = "" if builds is None else f" AND id IN ({','.join(map(str, builds)) or '0'})"
    merging = "'prepared', 'landed', 'building'" if builds is None else "'prepared', 'landed'"
    questions = [
        f"SELECT id FROM builds_build WHERE state IN ('RESOLVING', 'RUNNING'){chosen}",
        f"SELECT id FROM pulls_merge WHERE state IN ({merging})",
        *([] if builds is not None else ["SELECT id FROM pulls_comparison WHERE state IN ('queued', 'running')"]),
    ]
    return [f"{question[15:30]}: {row}" for question in questions for row in ask_database(stack.home, question)]


def note_usage(stack: SupervisedStack, usage: Usage) -> None:
    """Sample every part; of web the processes that answer, too. Jobs come and go, and nobody works now."""
    usage.note("supervisor", [stack.parts["supervisor"].pid])
    for part, state in stack.status().items():
        # Java takes what its options allow, whether it needs it or not.
        if part != "spark" and (pid := state["pid"]):
            below = [process.pid for process in list_descendants(pid)] if part == "web" else []
            usage.note(part, [pid, *below])
