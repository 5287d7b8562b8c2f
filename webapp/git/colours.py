"""Syntax colours of a text. It runs in a helper process, which ends at a deadline: regular expressions of lexers can explode."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pygments import lex
from pygments.lexers import find_lexer_class_for_filename
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Literal, Name, Operator

if TYPE_CHECKING:
    from pygments.token import _TokenType

Piece = tuple[str, str]
"""A part of a line, and the class of its colour."""
_FAMILIES: tuple[tuple[_TokenType, str], ...] = (
    (Comment, "c1"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (Literal.String, "s2"),
    (Literal.Number, "mi"),
    (Name.Function, "nf"),
    (Name.Decorator, "nf"),
    (Name.Class, "nc"),
    (Name.Namespace, "nc"),
    (Name.Tag, "nc"),
    (Name.Attribute, "nc"),
    (Name.Builtin, "mi"),
    (Name.Constant, "mi"),
)


def colour(name: str, content: str) -> list[list[Piece]]:
    """Split a text into the coloured pieces of its lines, by the language of the file's name."""
    lexer = (find_lexer_class_for_filename(name) or TextLexer)(stripnl=False, ensurenl=False)
    lines: list[list[Piece]] = []
    current: list[Piece] = []
    for token, value in lex(content, lexer):
        token_class = _token_class(token)
        for position, piece in enumerate(value.split("\n")):
            if position:
                lines.append(current)
                current = []
            if not piece:
                continue
            if current and (current[-1][1] == token_class or not piece.strip()):
                current[-1] = (current[-1][0] + piece, current[-1][1])
            else:
                current.append((piece, token_class))
    if current:
        lines.append(current)
    return lines


@cache
def _token_class(token: _TokenType) -> str:
    """Return the one class of a token's family: what shows no colour of its own needs no element of its own."""
    for family, name in _FAMILIES:
        if token in family:  # type: ignore[comparison-overlap]  # Pygments gives `in` a meaning of its own
            return name
    return ""
