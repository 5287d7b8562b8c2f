"""Parses JSON bodies of REST requests strictly: an object that repeats a member is refused."""

from __future__ import annotations

import codecs
from typing import Any

from rest_framework.parsers import BaseParser, get_encoding  # type: ignore[attr-defined]  # missing in the stubs

from jobs.parsing import load_json
from webapp.core.errors import BadRequest
from webapp.core.inputs import show_name


class JsonBodyParser(BaseParser):
    """Parses a JSON body. A UTF-8 byte order mark is skipped."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:  # noqa: ARG002 - DRF's signature
        """Return the value that was sent.

        Raises:
            BadRequest: not JSON, or an object has two members of one name.

        """
        encoding = get_encoding(parser_context or {})
        try:
            text = stream.read().removeprefix(codecs.BOM_UTF8).decode(encoding)
            return load_json(text, object_pairs_hook=_read_members, parse_constant=_refuse_constant)
        except ValueError as error:
            raise BadRequest(f"The body is not JSON: {error}", code="parse_error") from error


def _read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            shown = show_name(name)
            message = f"The body has the member {shown!r} more than once."
            raise BadRequest(message, code="repeated_member", errors={shown: ["Repeated."]})
        members[name] = value
    return members


def _refuse_constant(text: str) -> Any:
    message = f"{text} is not a JSON number"
    raise ValueError(message)
