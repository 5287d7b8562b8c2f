"""Whether the code of a JobSpec reads a column, as far as its text tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

_WORD = re.compile(r"\w+")


class ColumnUse(StrEnum):
    """What the code says of a column of one of its inputs."""

    READ = "reads"
    """It asks for it by name where it reads the input."""
    NAMED = "names"
    """It has the words of its name, which may stand for something else."""
    NOT_NAMED = "not_named"
    """It has them nowhere, or asks for other columns alone."""
    NOT_KNOWN = "not_known"
    """The code was not analysed, or has too many words."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """The columns that code asks one of its inputs for."""

    columns: tuple[str, ...] = ()
    is_listed: bool = False
    """Whether that is all that it takes of the input."""


@dataclass(frozen=True, slots=True)
class SpecColumns:
    """What the code of a JobSpec says of columns."""

    inputs: Mapping[str, InputColumns]
    """By path."""
    words: frozenset[str] | None
    """In small letters; None where they are not known."""


def judge_column(column: str, *, path: str, code: SpecColumns | None) -> ColumnUse:
    """Return what code says of a column.

    Args:
        column: its full name, nested names joined by dots.
        path: the input that has it.
        code: None if the code was not analysed.

    """
    if code is None:
        return ColumnUse.NOT_KNOWN
    of_input = code.inputs.get(path, InputColumns())
    if column in of_input.columns:
        return ColumnUse.READ
    outer = {column[:place] for place, sign in enumerate(column) if sign == "."}
    if of_input.is_listed and not outer.intersection(of_input.columns):
        return ColumnUse.NOT_NAMED
    return _look_for(column, code.words)


def _look_for(column: str, words: frozenset[str] | None) -> ColumnUse:
    # the name alone: code reaches `place.code` as `["place"]["code"]`, too
    needed = set(_WORD.findall(column.rpartition(".")[2].lower()))
    if words is None or not needed:
        return ColumnUse.NOT_KNOWN
    return ColumnUse.NAMED if needed <= words else ColumnUse.NOT_NAMED
