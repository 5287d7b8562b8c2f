"""What the states of a noun are: each with its label, tone and sentence, and which may follow which."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Self


class State(StrEnum):
    """One state of a noun. An enum of them says in `transitions` what may follow each; a state that nothing follows is an end."""

    label: str
    """What pages call it."""
    tone: str
    """The sign and colour that show it, of those in `webapp.core.templatetags.ui`."""
    sentence: str
    """What it means."""

    def __new__(cls, value: str, label: str, tone: str, sentence: str) -> Self:
        state = str.__new__(cls, value)
        state._value_ = value
        state.label, state.tone, state.sentence = label, tone, sentence
        return state

    @classmethod
    def transitions(cls) -> Mapping[Self, AbstractSet[Self]]:
        """Return for each state those that may follow it."""
        raise NotImplementedError

    @classmethod
    def choices(cls) -> list[tuple[str, str]]:
        """Return what a column may hold, with its label."""
        return [(state.value, state.label) for state in cls]

    @classmethod
    def ends(cls) -> frozenset[Self]:
        """Return the states that nothing follows."""
        return frozenset(state for state, following in cls.transitions().items() if not following)

    @property
    def is_over(self) -> bool:
        """Whether nothing follows."""
        return self in self.ends()

    @property
    def earlier(self) -> frozenset[Self]:
        """The states from which one step leads to this one."""
        return frozenset(state for state, following in self.transitions().items() if self in following)
