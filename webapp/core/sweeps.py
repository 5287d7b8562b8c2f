"""What must be repeated for ever: each app registers its function, one loop calls them (`manage.py sweep`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sweep:
    """A function that looks for work that was lost or is due, and how often it is called."""

    name: str
    every_seconds: float
    run: Callable[[], object]
    """What it returns is logged where it is not empty: counts of what had to be done."""


_registered: dict[str, Sweep] = {}


def register_sweep(*, name: str, every_seconds: float, run: Callable[[], object]) -> None:
    """Add a function to the loop; call it from `AppConfig.ready`. A second one of the name takes its place."""
    _registered[name] = Sweep(name=name, every_seconds=every_seconds, run=run)


def list_sweeps() -> list[Sweep]:
    """Return what the loop calls."""
    return list(_registered.values())
