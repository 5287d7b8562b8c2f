"""What datasets ask the apps above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webapp.core.ports import Port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction


@Port
def find_git_chain(*, path: str, branch: str) -> tuple[str, ...] | None:  # noqa: ARG001 - a question
    """Return a branch and its fallbacks in the repository that makes or owns a dataset; None where there is none."""
    return None


@Port
def list_with_jobspec(*, paths: Sequence[str]) -> set[str]:  # noqa: ARG001 - a question
    """Return those of some datasets that a JobSpec on master makes."""
    return set()


@Port
def describe_maker(*, principal: Principal, dataset: Dataset, branch: str) -> Any | None:  # noqa: ARG001 - a question
    """Return what makes a dataset on a branch, as far as the reader may see it; None where nothing is known to."""
    return None


@Port
def list_keys(*, dataset: Dataset, branch: str) -> Sequence[str]:  # noqa: ARG001 - a question
    """Return the columns by which rows of a dataset are told apart; none where nobody has said so."""
    return ()


@Port
def list_changes(transactions: Sequence[Transaction]) -> Mapping[str, Any]:  # noqa: ARG001 - a question
    """Return what each transaction changed in rows, by its id, where somebody has counted."""
    return {}


@Port
def list_open_pulls(*, principal: Principal, dataset: Dataset, branches: Sequence[str]) -> Mapping[str, Sequence[Any]]:  # noqa: ARG001 - a question
    """Return the open pull requests of a dataset's repository by source branch, of those that the reader may see."""
    return {}


@Port
def list_concerning_pulls(*, principal: Principal, dataset: Dataset) -> Sequence[Any]:  # noqa: ARG001 - a question
    """Return the newest open pull requests that change or affect a dataset, of those that the reader may see."""
    return ()


@Port
def list_row_urls(
    *,
    dataset: Dataset,  # noqa: ARG001 - a question
    branch: str,  # noqa: ARG001
    keys: Sequence[str],  # noqa: ARG001
    rows: Sequence[Mapping[str, Any]],  # noqa: ARG001
) -> list[str]:
    """Return where the history of each row is shown; nothing where rows have no key."""
    return []
