"""How a pull request that reverts another one is called."""

from __future__ import annotations

MOST_OF_TITLE = 240
MOST_OF_BRANCH = 170
"""Short enough for names with a number on both sides."""


def write_title(title: str) -> str:
    """Return the title of the pull request, and the first line of its commit."""
    return f'Revert "{title if len(title) <= MOST_OF_TITLE else title[: MOST_OF_TITLE - 1] + "…"}"'


def name_branch(*, number: int, source: str, earlier: int) -> str:
    """Return the name of its branch.

    It follows from what was there before, so that of two who revert at the same moment one is refused.

    Args:
        number: of the pull request that is reverted.
        source: its branch; no part of the new name is a folder, which other branches may have as their name.
        earlier: how many pull requests have reverted it before.

    """
    name = f"revert-{number}-{source[:MOST_OF_BRANCH].replace('/', '-')}".removesuffix(".lock").rstrip(".-")
    return f"{name}-{earlier + 1}" if earlier else name
