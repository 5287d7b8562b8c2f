"""What people and programs send to ask for a build, read once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.builds.rules.files import DELIMITERS, FileForm
from webapp.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """A build as it was asked for."""

    branch: str
    targets: tuple[str, ...]
    fallback: tuple[str, ...] | None
    repository: str
    upstream: bool
    force: bool
    dry_run: bool


KNOWN = {"branch", "targets", "fallback", "repository", "upstream", "force", "dry_run"}


def read_order(body: Mapping[str, Any]) -> BuildOrder:
    """Read a JSON body.

    Raises:
        InvalidInput: a member is missing, unknown or of the wrong type.

    """
    unknown = sorted(set(body) - KNOWN)
    if unknown:
        message = f"A build has no member {unknown[0]!r}: {', '.join(sorted(KNOWN))} are known."
        raise InvalidInput(message, errors={unknown[0]: ["Unknown."]})
    return BuildOrder(
        branch=_read_text(body, "branch"),
        targets=_read_texts(body, "targets") or (),
        fallback=_read_texts(body, "fallback"),
        repository=_read_text(body, "repository", required=False),
        upstream=_read_flag(body, "upstream"),
        force=_read_flag(body, "force"),
        dry_run=_read_flag(body, "dry_run"),
    )


_MARKS = {word: mark for mark, word in DELIMITERS.items()}
_HEADER = {"": True, "true": True, "1": True, "false": False, "0": False}


def read_file_form(query: Mapping[str, str]) -> FileForm:
    """Read how a file is read from the parameters of an upload.

    Raises:
        InvalidInput: one of them is nothing that can be.

    """
    delimiter, header = query.get("delimiter", ""), query.get("header", "").lower()
    if header not in _HEADER:
        message = f"header is true or false, not {query['header']!r}."
        raise InvalidInput(message, errors={"header": ["Must be true or false."]})
    form = FileForm(_MARKS.get(delimiter, delimiter), _HEADER[header], _read_types(query.get("types", "")))
    form.check()
    return form


def _read_types(text: str) -> dict[str, str]:
    try:
        types = json.loads(text or "{}")
    except ValueError:
        types = None
    if not isinstance(types, dict) or not all(isinstance(kind, str) for kind in types.values()):
        message = 'types is a JSON object, column to type, such as {"code": "string"}.'
        raise InvalidInput(message, errors={"types": [message]})
    return types


def _read_text(body: Mapping[str, Any], name: str, *, required: bool = True) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or (required and not value):
        message = f"{name} is a text."
        raise InvalidInput(message, errors={name: ["Required." if value in ("", None) else "Must be a text."]})
    return value


def _read_texts(body: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        message = f"{name} is a list of texts."
        raise InvalidInput(message, errors={name: ["Must be a list of texts."]})
    return tuple(value)


def _read_flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        message = f"{name} is true or false."
        raise InvalidInput(message, errors={name: ["Must be true or false."]})
    return value
