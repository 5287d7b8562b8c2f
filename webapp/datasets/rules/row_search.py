"""What people type to find rows of a diff, read: conditions that all hold, each with the place where it stands.

    day = 2013-07-10, carrier = UA        late > 50 and carrier in (UA, AA)        2013-07-10 UA        name is null

A condition is a column, one of `= != < <= > >= ~`, and a value; or a column and `in (…)`, `is null`, `is not null`; or a
value alone, which a part of the key has. Commas, spaces or `and` stand between them. Names and values with other signs
than letters, digits and `. - + : / ;` stand in quotes, a quote inside them twice. What is not of this form is refused
with its place: a search that is not understood must not look like one that finds nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from webapp.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Collection

LANGUAGE = (
    "conditions that all hold, with commas, spaces or `and` between them: a column, one of `= != < <= > >= ~` (`~`: its text "
    "holds the value, in small or capital letters) and a value; `column in (a, b)`; `column is null`; `column is not null`; "
    "or a value alone. What is not understood is a 400 that says where"
)
"""The language as REST documents it."""
LONGEST = 1_000
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r'"(?:[^"]|"")*"|' + r"'(?:[^']|'')*'")
_WORD = re.compile(r"""[^\s,()"'=<>!~]+""")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?(?![^\s,()])")
"""A date and a time of day, which pages write with a space."""
_PADDING = re.compile(r"={0,2}(?![^\s,()])")
"""How Base64 may end."""
_OPERATOR = re.compile(r"<=|>=|!=|<>|[=<>~]")
_RESERVED = {
    "and": "a condition is missing before 'and'",
    "or": "there is no 'or'; for several values of one column write: column in (one, other)",
    "not": "there is no 'not'; write column != value, or column is not null",
}


@dataclass(frozen=True)
class Word:
    """A name or a value, and where it begins, counted from 1."""

    text: str
    place: int
    is_quoted: bool = False

    @property
    def is_null(self) -> bool:
        """Whether it means that there is no value; the text null stands in quotes."""
        return not self.is_quoted and self.text.lower() == "null"


@dataclass(frozen=True)
class Term:
    """One condition."""

    column: Word | None
    """None: a part of the key."""
    operator: str
    """One of `= != < <= > >= ~ in`; a test for NULL is one of `=` or `!=` with NULL."""
    values: tuple[Word, ...]


def parse_search(text: str, *, columns: Collection[str]) -> list[Term]:
    """Read a search.

    Args:
        text: what was typed.
        columns: the names that there are, under which a column may be asked for.

    Raises:
        BadRequest: it is not understood; the message says where.

    """
    if len(text) > LONGEST:
        refuse(LONGEST + 1, f"a search has at most {LONGEST:,} characters")
    return _Parser(text, columns).parse()


def refuse(place: int, reason: str) -> NoReturn:
    """Say what is not understood, and where."""
    message = f"The search is not understood at character {place}: {reason}."
    raise BadRequest(message, code="bad_search", errors={"q": [message]})


class _Parser:
    def __init__(self, text: str, columns: Collection[str]) -> None:
        self._text = text
        self._columns = columns
        self._at = 0

    def parse(self) -> list[Term]:
        terms = [self._term()]
        while True:
            end = self._at
            self._skip()
            if self._at == len(self._text):
                return terms
            if self._at == end and not self._sees(","):
                self._refuse("a space or a comma is missing")
            if not self._take(","):
                self._take_keyword("and")
            terms.append(self._term())

    def _term(self) -> Term:
        self._skip()
        word = self._word("a condition")
        end = self._at
        self._skip()
        if operator := self._match(_OPERATOR):
            values = (self._value(f"a value after {operator}"),)
            return Term(self._known(word), "!=" if operator == "<>" else operator, values)
        if self._sees("!"):
            self._refuse("'!' alone is no comparison; write != for what differs")
        if term := self._worded(word):
            return term
        self._at = end
        return self._bare(word)

    def _worded(self, word: Word) -> Term | None:
        """Read a condition in words; None where the next word begins another one."""
        is_column = word.text in self._columns
        if self._take_keyword("in"):
            self._skip()
            if self._take("("):
                return Term(self._known(word), "in", self._list())
            if is_column:
                self._refuse("after 'in' come values in parentheses: (one, other)")
        elif self._take_keyword("is"):
            operator = "!=" if self._take_keyword("not") else "="
            self._skip()
            null = Word("null", self._at + 1)
            if self._take_keyword("null"):
                return Term(self._known(word), operator, (null,))
            if is_column:
                self._refuse("after 'is' comes null or not null")
        return None

    def _bare(self, word: Word) -> Term:
        if not word.is_quoted and (reason := _RESERVED.get(word.text.lower())):
            refuse(word.place, reason)
        if not word.is_quoted and word.text in self._columns:
            refuse(
                word.place + len(word.text),
                f"after the column {word.text} comes one of = != < <= > >= ~, in, is; "
                f'to find the text write "{word.text}"',
            )
        return Term(None, "=", (word,))

    def _list(self) -> tuple[Word, ...]:
        values = [self._value("a value")]
        while True:
            self._skip()
            if self._take(")"):
                return tuple(values)
            if not self._take(","):
                self._refuse("a comma or ) is missing")
            values.append(self._value("a value after the comma"))

    def _known(self, word: Word) -> Word:
        if word.text in self._columns:
            return word
        folded = {name.lower(): name for name in self._columns}
        close = get_close_matches(word.text.lower(), folded, n=1)
        hint = f"; perhaps {folded[close[0]]} is meant" if close else ""
        refuse(word.place, f"there is no column {word.text!r}{hint}")

    def _word(self, expected: str) -> Word:
        """Read a name, or a value that stands alone."""
        return self._quoted() or self._plain(_MOMENT) or self._plain(_WORD) or self._refuse_sign(expected)

    def _value(self, expected: str) -> Word:
        self._skip()
        word = self._quoted() or self._plain(_MOMENT) or self._plain(_WORD)
        if word is None:
            self._refuse_sign(expected)
        if not word.is_quoted and (padding := self._match(_PADDING)):
            word = Word(word.text + padding, word.place)
        return word

    def _quoted(self) -> Word | None:
        start = self._at
        if not (self._sees('"') or self._sees("'")):
            return None
        text = self._match(_QUOTED)
        if not text:
            self._refuse("the quote has no end")
        return Word(text[1:-1].replace(text[0] * 2, text[0]), start + 1, is_quoted=True)

    def _plain(self, pattern: re.Pattern[str]) -> Word | None:
        start = self._at
        text = self._match(pattern)
        return Word(text, start + 1) if text else None

    def _refuse_sign(self, expected: str) -> NoReturn:
        if self._at == len(self._text):
            self._refuse(f"{expected} is missing")
        self._refuse(f"{expected} is missing before {self._text[self._at]!r}; a text with such signs stands in quotes")

    def _refuse(self, reason: str) -> NoReturn:
        refuse(self._at + 1, reason)

    def _skip(self) -> None:
        self._match(_SPACE)

    def _sees(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def _take(self, sign: str) -> bool:
        is_there = self._sees(sign)
        self._at += len(sign) * is_there
        return is_there

    def _take_keyword(self, keyword: str) -> bool:
        """Take a word that is no column in a comparison."""
        self._skip()
        match = _WORD.match(self._text, self._at)
        if match is None or match[0].lower() != keyword:
            return False
        if keyword == "and" and _OPERATOR.match(self._text, _end_of_space(self._text, match.end())):
            return False
        self._at = match.end()
        return True

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return match[0] if match else ""


def _end_of_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start
