"""Changes that readers suggest: a comment on lines of code whose fenced block `suggestion` has what they should say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_BLOCK = re.compile(r"^(?P<fence>`{3,})suggestion[ \t]*\n(?P<text>(?:.*\n)*?)(?P=fence)[ \t]*$", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a comment suggests, between what it says before and after."""

    before: str
    lines: tuple[str, ...]
    """What the lines should say; none where they should go."""
    after: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """Lines of a file, counted from one, and what they should say."""

    first: int
    last: int
    lines: tuple[str, ...]


class OverlapError(ValueError):
    """Two replacements are of the same line."""

    def __init__(self, line: int) -> None:
        super().__init__(f"Line {line} is replaced twice.")
        self.line = line


def list_suggestions(body: str) -> list[Suggestion]:
    r"""Return what a comment suggests: one change, if it is to be committed.

    >>> list_suggestions("Shorter:\n```suggestion\nx = 1\n```\nWhat do you think?")
    [Suggestion(before='Shorter:\n', lines=('x = 1',), after='\nWhat do you think?')]
    """
    text = body.replace("\r\n", "\n")
    return [
        Suggestion(text[: match.start()], tuple(match["text"].split("\n")[:-1]), text[match.end() :])
        for match in _BLOCK.finditer(text)
    ]


def replace_lines(text: str, replacements: Sequence[Replacement]) -> str:
    """Return the text of a file with lines replaced; all others, and the ends of lines, stay to the byte.

    Raises:
        OverlapError: two of them are of the same line.
        IndexError: the text has no such line.

    """
    lines = _LINE.findall(text)
    usual = _end_of(lines[0]) or "\n" if lines else "\n"
    ordered = sorted(replacements, key=lambda replacement: replacement.first)
    for former, later in pairwise(ordered):
        if later.first <= former.last:
            raise OverlapError(later.first)
    for replacement in reversed(ordered):
        last = _end_of(lines[replacement.last - 1])
        ends = [usual] * (len(replacement.lines) - 1) + [last]
        new_lines = [line + end for line, end in zip(replacement.lines, ends, strict=False)]
        lines[replacement.first - 1 : replacement.last] = new_lines
    return "".join(lines)


def _end_of(line: str) -> str:
    """Return what a line ends with: nothing where it is the last one and the file has no newline there."""
    return line[len(line.rstrip("\r\n")) :]
