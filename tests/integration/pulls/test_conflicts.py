"""Files that conflict with the target are resolved on a page or by REST, and the merge is committed with what was chosen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import repositories
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.services import grant_role
from webapp.git.conflicts import Resolution
from webapp.pulls import services
from webapp.pulls.models import PullRequest
from webapp.repositories.models import Repository
from webapp.repositories.queries import read_file

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1/conflicts"
REST = "/api/v1/repositories/shop/pulls/1"
MARKED = "a = 1\n<<<<<<< fix\nb = <i>fix</i>\n=======\nb = 'master'\n>>>>>>> master\n"


@pytest.fixture
def repository(home: Any) -> Repository:
    repository = repositories.a_repository("shop")
    repositories.a_commit(repository, {"code.py": "a = 1\nb = 1\n", "notes.bin": "\0"})
    repositories.a_branch(repository, "fix")
    repositories.a_commit(repository, {"code.py": "a = 1\nb = <i>fix</i>\n", "notes.bin": "\0fix"}, branch="fix")
    repositories.a_commit(repository, {"code.py": "a = 1\nb = 'master'\n", "notes.bin": "\0master", "other.txt": "1\n"})
    return repository


@pytest.fixture
def pull(repository: Repository) -> PullRequest:
    maker = repositories.maker_of(repository)
    return services.open_pull(repository=repository, source="fix", target="master", title="Fix", by=maker)


def a_person(name: str, role: str) -> User:
    user = User.objects.create_user(name)
    grant_role(repository="shop", user=user, role=role, by=None)
    return user


def a_form(repository: Repository, **fields: str) -> dict[str, str]:
    """Return what the page sends: the first file by hand, of the second the target's."""
    return {
        "expected_head": repository.git.get_head("fix"),
        "expected_target": repository.git.get_head("master"),
        "path-1": "code.py", "take-1": "hand", "content-1": "a = 1\r\nb = 'both'\r\n",
        "path-2": "notes.bin", "take-2": "theirs",
        **{name.replace("_", "-"): value for name, value in fields.items() if name[0] in "ct"},
    }  # fmt: skip


def test_the_verdict_names_conflicts_before_what_is_stale(repository: Repository, pull: PullRequest) -> None:
    client = a_client(a_person("rika", "reader"))
    last = client.get("/r/shop/pulls/1").context["head"].verdict[-1]
    assert (last.kind, last.text, last.note) == ("bad", "Conflicts", "in 2 files")
    chosen = [Resolution(path=path, take="ours") for path in ("code.py", "notes.bin")]
    services.update_branch(pull=pull, by=repositories.maker_of(repository), resolutions=chosen)
    repositories.a_commit(repository, {"later.txt": "2\n"})
    last = client.get("/r/shop/pulls/1").context["head"].verdict[-1]
    assert (last.kind, last.text) == ("warn", "Stale")


def test_a_page_shows_each_conflict_and_commits_what_was_chosen(repository: Repository, pull: PullRequest) -> None:
    client = a_client(a_person("wim", "writer"))
    assert f'href="{PAGE}">Resolve conflicts</a>' in read_page(client, "/r/shop/pulls/1")
    page = client.get(PAGE)
    assert [(file.path, file.clashes, file.take, file.content) for file in page.context["files"]] == [
        ("code.py", 1, "hand", MARKED),
        ("notes.bin", 0, "", ""),
    ]
    assert "b = &lt;i&gt;fix&lt;/i&gt;" in page.content.decode()
    heads = [repository.git.get_head(branch) for branch in ("fix", "master")]

    answer = client.post(PAGE, a_form(repository))

    assert answer.status_code == 302
    merged = repository.git.get_commit(repository.git.get_head("fix"))
    assert list(merged.parents) == heads
    assert merged.body == "These files conflicted and were resolved by hand:\n- code.py\n- notes.bin"
    assert read_file(repository, "fix", "code.py") == b"a = 1\nb = 'both'\n"
    assert read_file(repository, "fix", "notes.bin") == b"\0master"
    assert read_file(repository, "fix", "other.txt") == b"1\n"
    entry = AuditEntry.objects.get(verb="commit_files", actor="wim")
    assert entry.detail["settled"] == ["code.py", "notes.bin"]
    assert "fix has every commit of master now. 2 files resolved." in read_page(client, "/r/shop/pulls/1")
    assert "No file conflicts" in read_page(client, PAGE)


def test_marks_that_are_left_and_files_that_are_open_are_named(repository: Repository, pull: PullRequest) -> None:
    client = a_client(a_person("wim", "writer"))
    head = repository.git.get_head("fix")
    left = client.post(PAGE, a_form(repository, content_1=MARKED.replace("a = 1", "mine")))
    assert left.status_code == 422
    assert "code.py: line 2 still is a mark of the conflict" in left.content.decode()
    assert left.context["files"][0].content.startswith("mine\n<<<<<<< fix")
    assert left.context["files"][1].take == "theirs"
    unsettled = client.post(PAGE, a_form(repository, take_2=""))
    assert unsettled.status_code == 409
    assert "These files conflict: notes.bin" in unsettled.content.decode()
    assert repository.git.get_head("fix") == head


@pytest.mark.parametrize("branch", ["fix", "master"])
def test_a_head_that_has_moved_is_said_and_what_was_written_is_kept(
    repository: Repository, pull: PullRequest, branch: str
) -> None:
    client = a_client(a_person("wim", "writer"))
    form = a_form(repository)
    repositories.a_commit(repository, {"later.txt": "1\n"}, branch=branch)
    head = repository.git.get_head("fix")
    answer = client.post(PAGE, form)
    assert answer.status_code == 409
    assert "These are the conflicts as they are now" in answer.content.decode()
    assert answer.context["files"][0].content == "a = 1\nb = 'both'\n"
    assert answer.context[{"fix": "source_sha", "master": "target_sha"}[branch]] == repository.git.get_head(branch)
    assert repository.git.get_head("fix") == head


def test_lines_keep_their_ends(repository: Repository, pull: PullRequest) -> None:
    for branch, word in (("fix", "ours"), ("master", "theirs")):
        repositories.a_commit(repository, {"code.py": f"a = 1\r\nb = '{word}'\r\n"}, branch=branch)
    client = a_client(a_person("wim", "writer"))
    page = client.get(PAGE)
    ends = page.context["files"][0].ends
    client.post(PAGE, {**a_form(repository), "ends-1": ends})
    assert read_file(repository, "fix", "code.py") == b"a = 1\r\nb = 'both'\r\n"


def test_a_text_of_mixed_line_ends_is_not_edited_by_hand(repository: Repository, pull: PullRequest) -> None:
    for branch, word in (("fix", "ours"), ("master", "theirs")):
        repositories.a_commit(repository, {"code.py": f"a = 1\r\nb = '{word}'\nc\r\n"}, branch=branch)
    client = a_client(a_person("wim", "writer"))
    page = client.get(PAGE)
    file = page.context["files"][0]
    assert (file.content, file.take) == ("", "")
    assert "Its lines end in different ways" in page.content.decode()
    client.post(PAGE, {**a_form(repository), "take-1": "theirs"})
    assert read_file(repository, "fix", "code.py") == b"a = 1\r\nb = 'theirs'\nc\r\n"


def test_who_may_not_push_sees_the_conflicts_and_is_refused(repository: Repository, pull: PullRequest) -> None:
    client = a_client(a_person("rolf", "reader"))
    head = repository.git.get_head("fix")
    page = read_page(client, PAGE)
    assert "Only who may push to fix can resolve these." in page
    assert client.post(PAGE, a_form(repository)).status_code == 302
    assert repository.git.get_head("fix") == head
    assert a_client(User.objects.create_user("nobody")).get(PAGE).status_code == 404


def test_a_pull_request_that_is_over_has_nothing_to_resolve(repository: Repository, pull: PullRequest) -> None:
    maker = repositories.maker_of(repository)
    services.close_pull(pull=pull, by=maker)
    user = User.objects.get(pk=maker.user_id)
    assert "its branch stays as it is" in read_page(a_client(user), PAGE)
    refused = a_rest_client(user).get(f"{REST}/conflicts")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_open")


def test_rest_says_what_conflicts_and_takes_resolutions(repository: Repository, pull: PullRequest) -> None:
    client = a_rest_client(a_person("wim", "writer"))
    conflicts = client.get(f"{REST}/conflicts").json()
    heads = {"expected_head": conflicts["head"], "expected_target": conflicts["target_head"]}
    code, notes = conflicts["files"]
    assert (code["path"], code["clashes"], code["in_source"], code["in_target"]) == ("code.py", 1, True, True)
    assert code["content"].splitlines()[1] == f"<<<<<<< {heads['expected_head']}"
    assert (notes["path"], notes["clashes"], notes["content"]) == ("notes.bin", 0, None)

    def update(*resolutions: dict[str, str], **fields: Any) -> Any:
        body = {"resolutions": list(resolutions), **heads, **fields}
        return client.post(f"{REST}/update", body, format="json")

    both, whole = {"path": "code.py", "take": "both"}, {"path": "notes.bin", "take": "ours"}
    open_files = update(both)
    assert (open_files.status_code, open_files.json()["code"]) == (409, "merge_conflict")
    assert open_files.json()["conflicts"] == ["notes.bin"]
    moved = update(both, whole, expected_target=heads["expected_head"])
    assert (moved.status_code, moved.json()["code"]) == (409, "target_moved")
    for wrong in ({"path": "code.py"}, {**both, "content": "x"}, {"path": "other.txt", "take": "ours"}):
        refused = update(wrong, whole)
        assert (refused.status_code, refused.json()["code"]) == (422, "bad_change")
    answer = update(both, whole)
    assert answer.status_code == 200
    assert read_file(repository, "fix", "code.py") == b"a = 1\nb = <i>fix</i>\nb = 'master'\n"
    assert client.get(f"{REST}/conflicts").json()["files"] == []


OWNERS = '[folders]\nowned = ["/shop"]\n\n[owners]\n"/shop/orders" = ["{}"]\n"/shop/prices" = ["{}"]\n'


def test_each_rule_of_a_pipeline_is_settled_by_itself(repository: Repository, pull: PullRequest) -> None:
    taken = [{"path": path, "take": "ours"} for path in ("code.py", "notes.bin")]
    client, rest = a_client(user := a_person("wim", "writer")), a_rest_client(user)
    assert rest.post(f"{REST}/update", {"resolutions": taken}, format="json").status_code == 200
    for branch, people in (("fix", ("ines", "olek")), ("master", ("mira", "rolf"))):
        repositories.a_commit(repository, {"pipeline.toml": OWNERS.format(*people)}, branch=branch)

    file = client.get(PAGE).context["files"][0]
    assert [place.name for place in file.places] == ['[owners] "/shop/orders"', '[owners] "/shop/prices"']
    heads = {"expected_head": repository.git.get_head("fix"), "expected_target": repository.git.get_head("master")}
    form = {"path-1": "pipeline.toml", "take-1": "each", "places-1": ["ours", ""], **heads}
    left = client.post(PAGE, form)
    assert left.status_code == 422
    assert "say for each place that conflicts what is taken, not for 1 of 2" in left.content.decode()
    assert [place.take for place in left.context["files"][0].places] == ["ours", ""]

    assert [found["clashes"] for found in rest.get(f"{REST}/conflicts").json()["files"]] == [2]
    wrong = {"resolutions": [{"path": "pipeline.toml", "takes": ["ours", "mine"]}]}
    assert rest.post(f"{REST}/update", wrong, format="json").status_code == 422
    assert client.post(PAGE, {**form, "places-1": ["ours", "theirs"]}).status_code == 302
    assert read_file(repository, "fix", "pipeline.toml").decode() == OWNERS.format("ines", "rolf")
