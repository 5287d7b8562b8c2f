"""What blocks a merge, and when an approval becomes void."""

from __future__ import annotations

from dataclasses import replace

import pytest

from webapp.pulls.rules import approvals, states
from webapp.pulls.rules.approvals import (
    DatasetFact,
    LoadFact,
    MergeFacts,
    OwnerFact,
    PathRuleFact,
    ProtectionFact,
    ReviewFact,
    Seen,
)
from webapp.pulls.rules.states import PullState

SEEN = Seen(head="a" * 40, target="master", rules="r1", transactions={"/x/a": "t1"})
READY = MergeFacts(
    state=PullState.OPEN,
    draft=False,
    author="ines",
    source="feature",
    target="master",
    source_exists=True,
    target_exists=True,
    has_commits=True,
    conflicts=(),
    publication="published",
    publication_errors=0,
    build_state="COMPLETED",
    build_id=1,
    datasets=[DatasetFact("/x/a", states.MODIFIED, current=True)],
    reviews=[ReviewFact("mira", states.APPROVE)],
    protection=ProtectionFact(approvals=1),
)


def codes(facts: MergeFacts) -> list[str]:
    return [blocker.code for blocker in approvals.list_blockers(facts)]


def test_blockers_none_when_everything_is_met() -> None:
    assert codes(READY) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"draft": True}, "draft"),
        ({"conflicts": ("a.py",)}, "conflict"),
        ({"has_commits": False}, "nothing_to_merge"),
        ({"target_exists": False}, "target_missing"),
        ({"publication": "pending"}, "publication_pending"),
        ({"publication": "failed", "publication_errors": 2}, "publication_failed"),
        ({"build_state": "RUNNING"}, "build_running"),
        ({"build_state": "FAILED"}, "build_failed"),
        ({"datasets": [DatasetFact("/x/a", states.MODIFIED, current=False)]}, "build_missing"),
        ({"failed_checks": {"Build": "not built yet"}}, "check_failed"),
        ({"reviews": []}, "approval_missing"),
        ({"reviews": [ReviewFact("ines", states.APPROVE)]}, "approval_missing"),
        ({"reviews": [ReviewFact("mira", states.APPROVE, void=True)]}, "approval_missing"),
        ({"reviews": [*READY.reviews, ReviewFact("olek", states.REJECT)]}, "rejected"),
        ({"protection": ProtectionFact(groups={"stewards": frozenset({"olek"})})}, "group_approval_missing"),
        (
            {"protection": ProtectionFact(paths=[PathRuleFact("*.py", "ops", frozenset({"olek"}))])},
            "path_approval_missing",
        ),
        ({"unshown": ["pay.py"]}, "lands_unshown"),
        (
            {"protection": ProtectionFact(owners={"*.py": OwnerFact("olek", frozenset({"olek"}), ["a.py"])})},
            "owner_approval_missing",
        ),
        ({"loads": [LoadFact("/x/raw", "t1", "t2", "was loaded by olek", "")]}, "load_conflict"),
        ({"loads": [LoadFact("/x/raw", "t1", "t2", "", "has no file.")]}, "load_impossible"),
        ({"loads": [LoadFact("/x/raw", "t1", "t1", "", "", has_other_rows=True)]}, "load_outdated"),
        ({"state": PullState.MERGED}, "not_open"),
    ],
)
def test_blockers_name_each_reason(change: dict[str, object], code: str) -> None:
    assert codes(replace(READY, **change)) == [code]  # type: ignore[arg-type]


def test_a_branch_of_loaded_files_alone_has_something_to_merge() -> None:
    assert codes(replace(READY, has_commits=False, loads=[LoadFact("/x/raw", "t1", "t1", "", "")])) == []


def test_blockers_come_all_at_once() -> None:
    facts = replace(READY, draft=True, publication="failed", reviews=[], conflicts=("a.py", "b.py"))
    assert codes(facts) == ["draft", "conflict", "publication_failed", "approval_missing"]


def test_blockers_of_a_deleted_branch_do_not_ask_for_builds() -> None:
    facts = replace(READY, source_exists=False, publication="pending", build_state="FAILED")
    assert codes(facts) == ["source_missing"]


def test_affected_datasets_need_no_build_on_the_branch() -> None:
    assert codes(replace(READY, datasets=[DatasetFact("/x/b", states.AFFECTED, current=False)])) == []


def test_standing_verdict_is_the_newest_that_is_not_void() -> None:
    reviews = [
        ReviewFact("mira", states.APPROVE),
        ReviewFact("mira", states.REJECT),
        ReviewFact("mira", states.COMMENT),
        ReviewFact("olek", states.APPROVE),
        ReviewFact("olek", states.APPROVE, void=True),
    ]
    assert approvals.list_standing(reviews) == {"mira": states.REJECT}


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (SEEN, None),
        (replace(SEEN, head="b" * 40), "the head moved"),
        (replace(SEEN, target="release"), "the target moved"),
        (replace(SEEN, rules="r2"), "the rules of master changed"),
        (replace(SEEN, transactions={"/x/a": "t2"}), "/x/a moved from t1 to t2"),
        (replace(SEEN, transactions={"/x/a": "t1", "/x/b": "t9"}), "/x/b moved from no transaction to t9"),
        (replace(SEEN, loads={"/x/a": ""}), "whether merging loads the files of /x/a was chosen anew"),
    ],
)
def test_void_reason_names_what_moved(now: Seen, words: str | None) -> None:
    reason = approvals.find_void_reason(seen=SEEN, now=now)
    assert reason is None if words is None else reason is not None and words in reason


def test_seen_survives_json() -> None:
    assert Seen.from_json(SEEN.as_json()) == SEEN


def test_rules_digest_ignores_order() -> None:
    assert approvals.digest_rules({"a": 1, "b": [1]}) == approvals.digest_rules({"b": [1], "a": 1})


def test_a_merge_result_that_was_not_tested_is_for_the_queue_to_mend() -> None:
    [blocker] = approvals.list_blockers(replace(READY, failed_checks={"merge result": "master has 1 commit more"}))
    assert (blocker.code, blocker.code in approvals.MAY_COME) == (approvals.TESTED_IN_QUEUE, False)
    assert blocker.message == (
        "What would be on master after the merge was not tested: master has 1 commit more. Merge it when it is ready."
    )
