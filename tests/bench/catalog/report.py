"""The table of results, its ratios, and whether each goal is met."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.catalog.client import Contender
from tests.bench.catalog.servers import NESSIE, OURS, REFERENCE
from tests.bench.catalog.works import Result

BRANCHED = "on a branch"
MOST_ON_A_BRANCH = 1.15
# By the beginning of the work: how many times as fast as the reference server, or at most so many milliseconds.
GOALS: dict[str, tuple[float, float | None]] = {
    "loadTable, 1 snapshot": (1.0, None),
    "loadTable, 100 ": (2.0, None),
    "loadTable, 1,000 ": (2.0, None),
    "unchanged (304), 100 ": (0.0, 1.0),
    "unchanged (304), 1,000 ": (0.0, 1.0),
    "commit, 1,000 ": (0.0, 12.0),
    "append": (1.0, None),
    "tables created": (1.0, None),
    "8 writers": (1.0, None),
    "crowd: commits": (1.3, None),
    "crowd: loads": (1.2, None),
    "crowd: lists": (1.2, None),
}


def print_table(results: Sequence[Result], contenders: Sequence[Contender]) -> None:
    """Print one line for each result."""
    names = [contender.name for contender in contenders]
    head = "".join(f"{name:>22}" for name in names) + f"{'x reference':>13}{'x Nessie':>10}{'branch/ours':>13}  goal"
    print(f"{'work':<30}{head}")
    for result in results:
        cells = "".join(f"{_cell(result, name):>22}" for name in names)
        ratios = (speed(result, REFERENCE), speed(result, NESSIE), cost_of_branch(result))
        shown = "".join(f"{_number(ratio):>{width}}" for ratio, width in zip(ratios, (13, 10, 13), strict=True))
        print(f"{result.work:<30}{cells}{shown}  {judge(result)}")


def print_pages(results: Sequence[Result]) -> None:
    """Print one line for each list, with the time of its slowest page over that of the fastest of all."""
    places = list(results[0].values)
    print(f"{'work':<30}" + "".join(f"{place + ' page':>16}" for place in places) + f"{'x fastest':>12}")
    fastest = min(value for result in results for value in result.values.values())
    for result in results:
        cells = "".join(f"{result.values[place]:>13.2f} ms" for place in places)
        print(f"{result.work:<30}{cells}{max(result.values.values()) / fastest:>12.2f}")


def speed(result: Result, peer: str) -> float | None:
    """How many times as fast as a peer ours is."""
    if peer not in result.values or OURS not in result.values:
        return None
    ratio = result.values[peer] / result.values[OURS]
    return ratio if result.unit == "ms" else 1 / ratio


def cost_of_branch(result: Result) -> float | None:
    """The time with the branch header over the time without."""
    if BRANCHED not in result.values:
        return None
    ratio = result.values[BRANCHED] / result.values[OURS]
    return ratio if result.unit == "ms" else 1 / ratio


def judge(result: Result) -> str:
    """Whether the goal is met; nothing where there is none."""
    goal = next((goal for start, goal in GOALS.items() if result.work.startswith(start)), None)
    if goal is None:
        return ""
    missed = []
    least, most = goal
    for peer in (REFERENCE, NESSIE):
        wanted = least if peer == REFERENCE else min(least, 1.0)
        ratio = speed(result, peer)
        if ratio is not None and ratio < wanted:
            missed.append(f"{wanted:g}x {peer}")
    if most is not None and result.values[OURS] > most:
        missed.append(f"at most {most:g} ms")
    branch = cost_of_branch(result)
    if branch is not None and branch > MOST_ON_A_BRANCH:
        missed.append(f"at most {MOST_ON_A_BRANCH} on a branch")
    if result.notes.get(OURS, "").endswith("lost") and not result.notes[OURS].startswith("0 "):
        missed.append("nothing lost")
    return f"MISSED: {', '.join(missed)}" if missed else "met"


def _cell(result: Result, name: str) -> str:
    note = f" ({result.notes[name]})" if name in result.notes else ""
    if name not in result.values:
        return "-" + note
    value = result.values[name]
    return f"{value:.2f} ms{note}" if result.unit == "ms" else f"{value:.0f}{result.unit}{note}"


def _number(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"
