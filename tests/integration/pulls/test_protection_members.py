"""Every member of a protection that REST accepts is enforced by the merge, and unknown ones are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group

from tests.factories import repositories as make
from tests.factories.clients import a_rest_client
from webapp.accounts.models import User
from webapp.accounts.queries import principal_for_user
from webapp.core.errors import InvalidInput
from webapp.pulls import services
from webapp.pulls.errors import MergeBlocked
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import states
from webapp.repositories.forms import ProtectionForm
from webapp.repositories.models import Protection, Publication
from webapp.repositories.serializers import PathRuleSerializer, ProtectionSerializer
from webapp.repositories.services import set_protection, statuses

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
ADDRESS = "/api/v1/repositories/shop/protections"
RULE = {"pattern": "paid/*", "group": "two"}
MEMBERS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "branch": ({"branch": "release", "approvals": 9}, {"approvals": 9}, "approval_missing"),
    "approvals": ({"approvals": 1}, {"approvals": 2}, "approval_missing"),
    "groups": ({"groups": ["two"]}, {"groups": ["two", "none"]}, "group_approval_missing"),
    "paths": ({"paths": []}, {"paths": [{**RULE, "group": "none"}]}, "path_approval_missing"),
    "paths.pattern": (
        {"paths": [{"pattern": "free/*", "group": "none"}]},
        {"paths": [{"pattern": "paid/", "group": "none"}]},
        "path_approval_missing",
    ),
    "paths.group": ({"paths": [RULE]}, {"paths": [{**RULE, "group": "none"}]}, "path_approval_missing"),
    "paths.approvals": (
        {"paths": [{**RULE, "approvals": 1}]},
        {"paths": [{**RULE, "approvals": 2}]},
        "path_approval_missing",
    ),
    "checks": ({"checks": ["JobSpecs"]}, {"checks": ["JobSpecs", "ci/lint"]}, "check_failed"),
    "resolved_threads": ({"resolved_threads": False}, {"resolved_threads": True}, "threads_unresolved"),
    "owners": ({"owners": False}, {"owners": True}, "owner_approval_missing"),
    "allow_bypass": (
        {"approvals": 9, "allow_bypass": True},
        {"approvals": 9, "allow_bypass": False},
        "bypass_forbidden",
    ),
}
"""For each member a protection that the pull request meets as far as it goes, one that it does not, and the blocker."""


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """A pull request by mallory that edits `paid/x.txt`, with an open thread and the approval of olek, who is in two."""
    repository = make.a_repository("shop", by=ines)
    for name in ("mallory", "olek", "zoe"):
        make.a_member(repository, "writer", name)
    Group.objects.create(name="two").user_set.set(User.objects.filter(username__in=["olek", "zoe"]))
    Group.objects.create(name="none")
    make.a_commit(repository, {"pipeline.toml": '[owners]\n"paid/" = ["zoe"]\n'}, by=ines)
    mallory, olek = principal_of("mallory"), principal_of("olek")
    make.a_branch(repository, "feature", by=mallory)
    head = make.a_commit(repository, {"paid/x.txt": "one\n"}, branch="feature", by=mallory).sha
    Publication.objects.update_or_create(
        repository=repository, branch="feature", sha=head, defaults={"status": "published"}
    )
    statuses.report_status(repository=repository, sha=head, name="ci/lint", result="failure", by=mallory)
    opened = services.open_pull(repository=repository, title="Change", source="feature", target="master", by=mallory)
    services.add_comment(pull=opened, body="Why?", by=olek, anchor={"path": "paid/x.txt", "line": 1, "side": "head"})
    services.add_review(pull=opened, verdict=states.APPROVE, by=olek)
    return opened


def principal_of(name: str) -> Principal:
    return principal_for_user(User.objects.get(username=name))


def protect(ines: Principal, body: dict[str, Any]) -> None:
    Protection.objects.all().delete()
    answer = a_rest_client(ines).post(
        ADDRESS, {"branch": "master", "approvals": 0, **body}, content_type="application/json"
    )
    assert answer.status_code == 201, answer.content


def approve_again(pull: PullRequest, *names: str) -> None:
    """Approve under the rules of now: an approval is bound to those that it was given under."""
    for name in names:
        services.add_review(pull=pull, verdict=states.APPROVE, by=principal_of(name))


def list_refusals(pull: PullRequest, ines: Principal, member: str) -> set[str]:
    """Return the codes of what blocks a merge, or of what keeps a maintainer from passing over that."""
    if member != "allow_bypass":
        return {blocker.code for blocker in queries.list_blockers(pull)}
    try:
        services.merge_pull(pull=pull, by=ines, bypass=True)
    except MergeBlocked as refused:
        return {str(reason["code"]) for reason in refused.extra["blocked_by"]}
    return set()


def test_every_member_has_a_case() -> None:
    accepted = {name for name, field in ProtectionSerializer().fields.items() if not field.read_only}
    accepted |= {f"paths.{name}" for name, field in PathRuleSerializer().fields.items() if not field.read_only}
    assert accepted == MEMBERS.keys()
    assert set(ProtectionForm.base_fields) == set(ProtectionSerializer().fields)


def test_each_member_is_enforced(pull: PullRequest, ines: Principal) -> None:
    for member, (met, unmet, code) in MEMBERS.items():
        protect(ines, unmet)
        approve_again(pull, "olek")
        assert code in list_refusals(pull, ines, member), member
        protect(ines, met)
        approve_again(pull, "olek")
        assert code not in list_refusals(pull, ines, member), member


def test_a_path_rule_counts_its_members_and_each_rule_of_a_pattern_holds(pull: PullRequest, ines: Principal) -> None:
    protect(ines, {"paths": [{**RULE, "group": "none"}, {**RULE, "approvals": 2}, RULE]})
    approve_again(pull, "olek")
    missing = [blocker.message for blocker in queries.list_blockers(pull) if blocker.code == "path_approval_missing"]
    assert missing == [
        "A change of paid/* needs 1 approval by the group none; none so far.",
        "A change of paid/* needs 2 approvals by the group two; 1 so far.",
    ]
    approve_again(pull, "zoe")
    missing = [blocker.message for blocker in queries.list_blockers(pull) if blocker.code == "path_approval_missing"]
    assert missing == ["A change of paid/* needs 1 approval by the group none; none so far."]


REFUSED = [
    ({"aprovals": 2}, "aprovals"),
    ({"paths": [{**RULE, "aprovals": 2}]}, "aprovals"),
    ({"paths": [{**RULE, "approvals": 0}]}, "approvals"),
    ({"paths": [{**RULE, "approvals": 21}]}, "approvals"),
    ({"paths": [{**RULE, "approvals": True}]}, "approvals"),
    ({"paths": [{**RULE, "pattern": "./paid/*"}]}, "./paid/*"),
    ({"paths": [{**RULE, "pattern": "//paid"}]}, "//paid"),
    ({"branch": "release/*"}, "release/*"),
]


def test_what_cannot_be_enforced_is_refused(pull: PullRequest, ines: Principal) -> None:
    before = list(Protection.objects.values())
    for body, named in REFUSED:
        answer = a_rest_client(ines).post(ADDRESS, {"branch": "master", **body}, content_type="application/json")
        assert answer.status_code in {400, 422}, body
        assert named in answer.content.decode()
    for rule in ({**RULE, "aprovals": 2}, {**RULE, "approvals": True}, {**RULE, "pattern": "paid/../x"}):
        with pytest.raises(InvalidInput):
            set_protection(repository=pull.repository, branch="master", paths=[rule], by=ines)
    assert list(Protection.objects.values()) == before
