"""What clients were told, to be compared with what is there: acknowledged once, refused nowhere, unknown one of the two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["acknowledged", "refused", "unknown"]


@dataclass
class Ledger:
    """The outcomes of one kind of write; each thread writes keys of its own, unknown before it is sent."""

    name: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def note(self, key: str, outcome: Outcome) -> None:
        """Note what a client was told of a write."""
        self.outcomes[key] = outcome

    def check(self, present: Iterable[str], *, inherited: Container[str] = ()) -> None:
        """Fail unless what is there, but for what a branch had from its parent, agrees with what was told."""
        counts = Counter(key for key in present if key not in inherited)
        lost = [key for key, outcome in self.outcomes.items() if outcome == "acknowledged" and not counts[key]]
        doubled = [key for key, count in counts.items() if count > 1]
        risen = [key for key, outcome in self.outcomes.items() if outcome == "refused" and counts[key]]
        foreign = [key for key in counts if key not in self.outcomes]
        wrong = {"lost": lost, "doubled": doubled, "refused but there": risen, "never written": foreign}
        assert not any(wrong.values()), f"{self.name}: { {name: keys for name, keys in wrong.items() if keys} }"

    def summary(self) -> str:
        """One line for the log."""
        counts = Counter(self.outcomes.values())
        return f"{self.name}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
