"""Where a table's files live. The server owns locations: clients choose one only where it lets them, below a prefix beside the
warehouse, and nothing reaches outside its own. `jobs/locations.py` decides what is inside a folder.
"""

import re
from collections.abc import Mapping, Sequence

from jobs.locations import is_inside, split_location
from webapp.catalog.rules.errors import Malformed

# Properties by which a writer moves a table's files.
PATH_PROPERTIES = frozenset(
    {
        "write.data.path",
        "write.metadata.path",
        "write.object-storage.path",
        "write.folder-storage.path",
    }
)
LOCATION = "location"
"""The property of a namespace that says in which folder clients put its tables."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
MAX_PART = 255
"""Characters of a folder's name that file systems take."""
MAX_LOCATION = 900
"""Characters: files lie below a location, and the key of an object has at most 1,024 bytes."""
SHOWN = 60
"""Characters of a long location in a refusal."""
_GIVEN_END = r"-(?:[0-9a-f]{8}|[0-9a-f]{32})"
"""The random end of a table's folder: this server writes 8 digits, clients that choose the folder themselves write a UUID."""
# What every reader of a location takes for the same folder: no escape, no empty part, no way up, nothing but ASCII.
_PLAIN = re.compile(r"(?:file:(?://)?|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?!\.+(?:/|$))[A-Za-z0-9_.=@+-]+)+")


def is_plain(location: str) -> bool:
    """Return whether a location has no second reading; `file:/a` and `file:///a` alone may spell one folder."""
    return _PLAIN.fullmatch(location) is not None


def check_length(location: str) -> None:
    """Refuse a location that no file system or object store can hold files below."""
    if len(location) > MAX_LOCATION:
        message = f"The location {location[:SHOWN]}… has {len(location)} characters, more than {MAX_LOCATION}"
        raise Malformed(message)
    longest = max(location.split("/"), key=len)
    if len(longest) > MAX_PART:
        message = f"The location has a part of {len(longest)} characters, more than {MAX_PART}: {longest[:SHOWN]}…"
        raise Malformed(message)


def is_below(location: str, prefix: str) -> bool:
    """Return whether a location is plain and inside a plain prefix, but not the prefix itself."""
    return is_plain(location) and is_inside(location, prefix) and split_location(location) != split_location(prefix)


def overlap(location: str, other: str) -> bool:
    """Return whether two locations are the same folder, or one lies inside the other."""
    host, parts = split_location(location)
    other_host, other_parts = split_location(other)
    return host == other_host and all(part == other_part for part, other_part in zip(parts, other_parts, strict=False))


def spell(location: str) -> list[str]:
    """List all spellings of a plain location, the usual one first."""
    host, parts = split_location(location)
    usual = "/".join((host, *parts))
    return [usual, usual.replace("file://", "file:", 1)] if host == "file://" else [usual]


def namespace_folder(*, warehouse: str, levels: Sequence[str]) -> str:
    """Return the folder of a namespace: `<warehouse>/<levels>`."""
    return "/".join([warehouse.rstrip("/"), *(_namespace_folder(level) for level in levels)])


def table_folder(*, warehouse: str, levels: Sequence[str], name: str) -> str:
    """Return the folder of a table without its random end: `<warehouse>/<levels>/<table>`."""
    # A name may hold anything, a folder may not. Two names that meet here are kept apart by the random end.
    return f"{namespace_folder(warehouse=warehouse, levels=levels)}/{_folder(name)}"


def is_given_location(location: str, *, warehouse: str, levels: Sequence[str], name: str) -> bool:
    """Return whether a location is, letter by letter, one of the folders that a table of this name may have."""
    folder = table_folder(warehouse=warehouse, levels=levels, name=name)
    return re.fullmatch(re.escape(folder) + _GIVEN_END, location, re.ASCII) is not None


def is_own_folder(location: str, *, warehouse: str) -> bool:
    """Return whether a location is, letter by letter, one that this server could have given to some table or view.

    Folders of namespaces never end like this: such a folder holds one table, and no other table's files come below it.
    """
    below = r"(?:/(?!\.+/)[A-Za-z0-9_.-]+)+/[A-Za-z0-9_.-]+"
    return re.fullmatch(re.escape(warehouse.rstrip("/")) + below + _GIVEN_END, location, re.ASCII) is not None


def folders_above(location: str) -> list[str]:
    """List the folders above a location, in all spellings."""
    host, parts = split_location(location)
    return [spelling for count in range(1, len(parts)) for spelling in spell("/".join((host, *parts[:count])))]


def top_folder(location: str, *, warehouse: str) -> str | None:
    """Return the folder directly below the warehouse that a location is in; who may use it depends on rights there."""
    if not is_inside(location, warehouse):
        return None
    _, parts = split_location(location)
    _, root = split_location(warehouse)
    return parts[len(root)] if len(parts) > len(root) else None


def check_path_properties(properties: Mapping[str, str], *, location: str) -> None:
    """Refuse properties that would send a table's files elsewhere."""
    for key in PATH_PROPERTIES & properties.keys():
        if not is_inside(properties[key], location):
            message = f"Property {key} must stay inside the table's location {location}"
            raise Malformed(message)


def check_file(path: str, *, location: str, what: str) -> None:
    """Refuse a file of the table that lies outside it."""
    if not is_inside(path, location):
        message = f"The {what} {path} is outside the table's location {location}"
        raise Malformed(message)


def _namespace_folder(level: str) -> str:
    folder = _folder(level)
    return f"{folder}_" if re.search(f"{_GIVEN_END}$", folder) else folder


def _folder(part: str) -> str:
    text = _UNSAFE.sub("_", part)[:100]
    return text if text.strip(".") else "_" * max(len(text), 1)
