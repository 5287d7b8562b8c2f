"""Trailers of commit messages: `Key: value` lines in the last paragraph, as `git interpret-trailers` reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.git.values import Person

CO_AUTHOR = "Co-authored-by"
_LINE = re.compile(r"(?P<key>[A-Za-z0-9][A-Za-z0-9-]*)[ \t]*:[ \t]*(?P<value>.*)")
_BY_GIT = re.compile(r"Signed-off-by: |\(cherry picked from commit ")
_ADDRESS = re.compile(r"<([^<>]*)>\s*\Z")


class Trailer(NamedTuple):
    """One trailer."""

    key: str
    value: str

    @property
    def co_author(self) -> str | None:
        """The address in lower case of the co-author that it names, or None."""
        address = _ADDRESS.search(self.value) if self.key.lower() == CO_AUTHOR.lower() else None
        return address[1].strip().lower() if address else None


def name_co_author(person: Person) -> Trailer:
    """Return the trailer that names a co-author."""
    return Trailer(CO_AUTHOR, f"{person.name} <{person.email}>")


def read_trailers(message: str) -> list[Trailer]:
    """Return the trailers of a message."""
    trailers: list[Trailer] = []
    for line in _find_block(message):
        if line[:1].isspace() and trailers:
            key, value = trailers[-1]
            trailers[-1] = Trailer(key, f"{value} {line.strip()}")
        elif match := _LINE.fullmatch(line):
            trailers.append(Trailer(match["key"], match["value"].strip()))
    return trailers


def add_trailers(message: str, trailers: Iterable[Trailer]) -> str:
    """Return a message with those trailers that it does not have yet. A co-author is named once by each address."""
    seen = {_identify(trailer) for trailer in read_trailers(message)}
    lines = []
    for trailer in trailers:
        if (identity := _identify(trailer)) not in seen:
            seen.add(identity)
            lines.append(f"{trailer.key}: {trailer.value}")
    message = message.strip()
    gap = "\n" if _find_block(message) else "\n\n"
    return message + gap + "\n".join(lines) if lines else message


def _identify(trailer: Trailer) -> tuple[str, str]:
    return trailer.key.lower(), trailer.co_author or trailer.value.lower()


def _find_block(message: str) -> list[str]:
    """Return the lines of the last paragraph if it consists of trailers. The subject never does."""
    _subject, *paragraphs = re.split(r"\n(?:[ \t]*\n)+", message.replace("\r\n", "\n").strip())
    lines = paragraphs[-1].split("\n") if paragraphs else []
    if not lines or lines[0][:1].isspace():
        return []
    written = [line for line in lines if not line[:1].isspace()]
    trailers = [line for line in written if _LINE.fullmatch(line) or _BY_GIT.match(line)]
    is_by_git = any(_BY_GIT.match(line) for line in written) and 4 * len(trailers) >= len(written)
    return lines if len(trailers) == len(written) or is_by_git else []
