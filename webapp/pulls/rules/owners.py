"""Who owns which paths and datasets, as `[owners]` of pipeline.toml says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from jobs.parsing import load_toml
from webapp.repositories.rules.patterns import matches

GROUP_PREFIX = "group:"
"""What a name of a group begins with; all others are user names."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Whom a pattern names."""

    people: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Their names, as a sentence lists them."""
        return ", ".join([*self.people, *(f"the group {group}" for group in self.groups)])


@dataclass(frozen=True, slots=True)
class OwnedChange:
    """A pattern with what of it a pull request changes."""

    pattern: str
    owners: Owners
    paths: tuple[str, ...]


def read_owners(text: str) -> dict[str, Owners]:
    """Read who owns what. A file that does not parse names nobody: publication has named that error already."""
    try:
        table = load_toml(text).get("owners", {})
    except ValueError:
        return {}
    if not isinstance(table, dict):
        return {}
    return {pattern: _read_names(names) for pattern, names in table.items() if isinstance(names, list)}


def _read_names(names: Iterable[object]) -> Owners:
    texts = [name for name in names if isinstance(name, str)]
    return Owners(
        people=tuple(dict.fromkeys(name for name in texts if not name.startswith(GROUP_PREFIX))),
        groups=tuple(dict.fromkeys(name[len(GROUP_PREFIX) :] for name in texts if name.startswith(GROUP_PREFIX))),
    )


def match_owners(owners: Mapping[str, Owners], paths: Collection[str]) -> list[OwnedChange]:
    """Return the patterns that any of these files and datasets fit, each with those that do.

    A dataset begins with a slash and a file does not, so that no pattern is taken for one of the other kind.
    """
    changes = []
    for pattern, names in sorted(owners.items()):
        fitting = tuple(sorted(path for path in paths if matches(path, pattern)))
        if fitting:
            changes.append(OwnedChange(pattern, names, fitting))
    return changes
