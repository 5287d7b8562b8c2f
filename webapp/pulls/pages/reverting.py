"""The way back from a merge, and whether it leads to what was there before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from webapp.pulls.queries.reverts import describe_restored
from webapp.pulls.rules import states
from webapp.pulls.rules.states import PullState

if TYPE_CHECKING:
    from webapp.pulls.pages.head import LinkedPull, Loaded, PullHead


@dataclass(frozen=True)
class WayBack:
    """What takes a merged pull request back, or would."""

    target: str
    by: LinkedPull | None
    post_url: str
    """Where it is asked for; empty where the reader may not."""


@dataclass(frozen=True)
class RestoredDataset:
    """A dataset of a pull request that reverts another one, compared with what was there before that."""

    path: str
    url: str
    state: str
    counts: tuple[int, int, int] | None
    """Rows added, removed and changed, where it was compared."""
    reason: str


@dataclass(frozen=True)
class Restored:
    """Whether the data is again what it was before the pull request that is reverted."""

    reverted: LinkedPull
    target: str
    datasets: list[RestoredDataset]

    @property
    def is_moving(self) -> bool:
        """Whether one of them is still being compared."""
        return any(dataset.state == "comparing" for dataset in self.datasets)


def describe_way_back(loaded: Loaded, head: PullHead) -> WayBack | None:
    """Return how a merged pull request is taken back; None of one that is not merged, or where there is nothing to say."""
    if loaded.pull.state != PullState.MERGED or not (head.reverted_by or head.may_write):
        return None
    url = reverse("pull-revert", args=[head.repository, head.number])
    return WayBack(head.target, head.reverted_by, url if head.may_write and not head.reverted_by else "")


def read_restored(loaded: Loaded, head: PullHead) -> Restored | None:
    """Return how the data compares with what was there before; None of a pull request that reverts no other one."""
    if head.reverts is None:
        return None
    results = describe_restored(loaded.rows)
    return Restored(
        reverted=head.reverts,
        target=head.target,
        datasets=[
            RestoredDataset(
                path=path,
                url=_find_url(loaded, path, result["state"]),
                state=result["state"],
                counts=_read_counts(result),
                reason=result.get("reason", ""),
            )
            for path, result in sorted(results.items())
        ],
    )


def _find_url(loaded: Loaded, path: str, state: str) -> str:
    is_compared = state in ("equal", "different", "comparing")
    query = {"dataset": path, **({"compared": states.BEFORE_REVERTED} if is_compared else {})}
    return f"{loaded.url}/data?{urlencode(query, safe='/')}"


def _read_counts(result: dict[str, int]) -> tuple[int, int, int] | None:
    if "inserted" not in result:
        return None
    return result["inserted"], result["deleted"], result["updated"]
