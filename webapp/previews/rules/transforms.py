"""Which of the transforms that code declares a preview runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs.protocol import JobSpec

SUFFIX = ".py"
MOST_TRANSFORMS = 8
"""Of one file."""
WHY_NOT_SPARK = (
    "It runs on Spark, whose server works outside of the sandbox with keys to the tables; a preview may reach no table. "
    "Commit it to a branch of its own and build it there: no other branch has what it writes."
)
WHY_TOO_MANY = f"A preview runs the first {MOST_TRANSFORMS} transforms of a file."


@dataclass(frozen=True)
class Chosen:
    """What is run of a file, and what is not."""

    specs: Sequence[JobSpec]
    skipped: Sequence[tuple[str, str]]
    """Functions, and why they are not run."""

    @property
    def inputs(self) -> list[str]:
        """The datasets that are read."""
        return list(dict.fromkeys(source.path for spec in self.specs for source in spec.inputs))

    @property
    def outputs(self) -> list[str]:
        """The datasets that are made."""
        return list(dict.fromkeys(target.path for spec in self.specs for target in spec.outputs))


def choose_transforms(specs: Iterable[JobSpec], *, file: str) -> Chosen:
    """Return what a preview of a file runs: its light transforms, in the order of the text."""
    declared = sorted((spec for spec in specs if spec.file == file), key=lambda spec: (spec.line, spec.function))
    light = [spec for spec in declared if spec.profile == "light"]
    skipped = [(spec.function, WHY_NOT_SPARK) for spec in declared if spec.profile != "light"]
    skipped += [(spec.function, WHY_TOO_MANY) for spec in light[MOST_TRANSFORMS:]]
    return Chosen(light[:MOST_TRANSFORMS], skipped)
