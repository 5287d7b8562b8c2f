"""What came of publishing a commit of a pull request, in the words of the Conversation and of the Commits tab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.pulls.queries import pulls as queries
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from webapp.pulls.models import PullRequest
    from webapp.repositories.models import Publication


def word_publication(pull: PullRequest, sha: str, publication: Publication | None) -> tuple[str, str]:
    """Return the tone, and in words what came of publishing a commit."""
    if publication is None or publication.status == PublicationState.PENDING:
        if sha != pull.head_sha:
            # Only heads are published: one that a later commit came over is not missed.
            return "open", "overtaken by a later commit"
        if publication is None and queries.is_source_gone(pull):
            return "open", "its JobSpecs went with the branch"
        return "wait", "being published"
    if publication.status == PublicationState.FAILED:
        return "bad", publication.summary
    return "ok", f"{publication.summary} published"
