"""Values that schemas describe, and values that nobody expects."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Mapping
from typing import Any

HOSTILE_TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "\udfff\ud800", "é", "\U0001f600", "\u202e", "../../etc/passwd", "%2e%2e%2f", "a" * 5000,
    "'; DROP TABLE x; --", "<script>alert(1)</script>", "{{7*7}}", "master", "main", "refs/heads/master", "-", "--help",
    "a..b", "a.lock", "²", "٣", "9" * 5000, "-1", "0", "1e400", "NaN", "Infinity", "null", "true", "[]", "{}", "\r\nX: y",
    "2030-13-45T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "/shop/raw", "/shop", "//", "shop",
)  # fmt: skip
HOSTILE_NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, -0.0, 1e308)


def any_value(dice: random.Random, depth: int = 0) -> Any:
    """Any JSON value, mostly a small one."""
    kind = dice.randrange(8 if depth < 3 else 5)
    if kind < 2:
        return dice.choice(HOSTILE_TEXTS)
    if kind == 2:
        return dice.choice(HOSTILE_NUMBERS)
    if kind in (3, 4):
        return dice.choice((None, True, False))
    if kind in (5, 6):
        return [any_value(dice, depth + 1) for _ in range(dice.randrange(3))]
    return {dice.choice(HOSTILE_TEXTS): any_value(dice, depth + 1) for _ in range(dice.randrange(3))}


def value_of(schema: Mapping[str, Any], schemas: Mapping[str, Any], dice: random.Random, known: list[Any]) -> Any:
    """A value of a schema, of what there is where that fits, and now and then of something else."""
    if dice.random() < 0.12:
        return any_value(dice)
    if "$ref" in schema:
        return value_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, dice, known)
    for key in ("oneOf", "anyOf", "allOf"):
        if key in schema:
            return value_of(dice.choice(schema[key]), schemas, dice, known)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type")
    kind = dice.choice(kind) if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        return {
            name: value_of(member, schemas, dice, known)
            for name, member in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or dice.random() < 0.6
        }
    if kind == "array":
        return [value_of(schema.get("items", {}), schemas, dice, known) for _ in range(dice.randrange(3))]
    if kind == "integer":
        return dice.choice((*HOSTILE_NUMBERS[:4], dice.randrange(1000)))
    if kind == "boolean":
        return dice.random() < 0.5
    if kind == "string":
        word = "".join(dice.choices(string.ascii_lowercase, k=6))
        return dice.choice((word, word, str(dice.choice(known)), dice.choice(HOSTILE_TEXTS)))
    return any_value(dice)


def write_json(value: Any) -> bytes:
    """JSON as a hostile client writes it: half surrogates escaped, NaN as it comes."""
    return json.dumps(value).encode()


def mutate_json(value: Any, dice: random.Random) -> Any:
    """A value with one part of it changed, removed or doubled."""
    if dice.random() < 0.15 or not isinstance(value, (dict, list)) or not value:
        return any_value(dice)
    if isinstance(value, list):
        place = dice.randrange(len(value))
        changed = list(value)
        if dice.random() < 0.3:
            changed.insert(place, value[dice.randrange(len(value))])
        elif dice.random() < 0.3:
            del changed[place]
        else:
            changed[place] = mutate_json(value[place], dice)
        return changed
    name = dice.choice(list(value))
    if dice.random() < 0.2:
        return {key: item for key, item in value.items() if key != name}
    if dice.random() < 0.1:
        return {**value, dice.choice(HOSTILE_TEXTS): any_value(dice)}
    return {**value, name: mutate_json(value[name], dice)}


def mutate_bytes(content: bytes, dice: random.Random) -> bytes:
    """Bytes with some of them changed, removed, doubled or cut off."""
    changed = bytearray(content or b"x")
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(changed) or 1)
        act = dice.randrange(4)
        if act == 0:
            changed[place : place + 1] = bytes([dice.randrange(256)])
        elif act == 1:
            del changed[place : place + dice.randrange(1, 9)]
        elif act == 2:
            changed[place:place] = changed[place : place + dice.randrange(1, 30)]
        else:
            del changed[place:]
    return bytes(changed)
