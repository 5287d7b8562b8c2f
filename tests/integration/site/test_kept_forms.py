"""A session that ends while somebody writes costs no text, and shows it to nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from tests.factories import repositories as make
from tests.factories.clients import read_page
from webapp.accounts.models import User
from webapp.pulls import services

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PASSWORD = "a long enough passphrase 7"  # noqa: S105 - of test users
PULL = "/r/shop/pulls/1"
FORMS = [
    (f"{PULL}/comment", PULL, {"body": "My <b>long</b> thought"}),
    (f"{PULL}/review", f"{PULL}/code", {"body": "Not yet", "verdict": "reject"}),
    ("/r/shop/edit/master/README.md", "", {"content": "typed text\r\n", "message": "Change it", "path": "README.md"}),
    ("/r/shop/pulls/new", "/r/shop/pulls/new?source=fix&target=master", {"title": "A title", "body": "Why"}),
    ("/r/shop/sql", "", {"sql": "SELECT 'mine'", "branch": "master"}),
]


@pytest.fixture
def web(home: Path, silent_bell: None) -> Client:
    """The browser of Ines, signed in by her password, on a repository with a pull request."""
    ines = make.a_person("ines")
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "fix", by=ines)
    make.a_commit(repository, {"a.txt": "1\n"}, branch="fix", by=ines)
    services.open_pull(repository=repository, source="fix", target="master", title="Fix", by=ines)
    make.add_member(repository, "writer", make.a_person("olek"))
    for user in User.objects.all():
        user.set_password(PASSWORD)
        user.save()
    web = Client()
    sign_in(web, "ines")
    return web


def sign_in(web: Client, username: str, following: str = "/") -> str:
    answer = web.post("/login", {"username": username, "password": PASSWORD, "next": following})
    assert answer.status_code == 302, answer.content
    return answer["Location"]


def send_signed_out(web: Client, action: str, origin: str, fields: dict[str, str]) -> str:
    """Send a form after the session has ended; return where a new sign-in leads."""
    Session.objects.all().delete()
    headers: dict[str, Any] = {"headers": {"referer": f"http://testserver{origin}"}} if origin else {}
    answer = web.post(action, fields, **headers)
    assert answer.status_code == 302
    login = web.get(answer["Location"])
    return str(login.context["next"])


@pytest.mark.parametrize(("action", "origin", "fields"), FORMS)
def test_what_was_typed_is_on_its_page_after_a_new_sign_in(
    web: Client, action: str, origin: str, fields: dict[str, str]
) -> None:
    following = send_signed_out(web, action, origin, fields)
    assert following == (origin or action)
    answer = web.get(sign_in(web, "ines", following))
    assert answer.status_code == 200
    kept = answer.context["kept"]
    assert (kept.action, {field.name: field.value for field in kept.fields}) == (action, fields)
    text = answer.content.decode()
    assert f'action="{action}"' in text
    assert "My <b>long" not in text


def test_a_kept_form_is_sent_once(web: Client) -> None:
    action, origin, fields = FORMS[0]
    sign_in(web, "ines", send_signed_out(web, action, origin, fields))
    assert "You were signed out before this was sent" in read_page(web, origin)
    assert "You were signed out" not in read_page(web, "/r/shop/pulls")
    assert web.post(action, fields).status_code == 302
    text = read_page(web, origin)
    assert "You were signed out" not in text
    assert "thought" in text


def test_a_kept_form_is_of_its_author_alone(web: Client) -> None:
    action, origin, fields = FORMS[0]
    sign_in(web, "olek", send_signed_out(web, action, origin, fields))
    assert "thought" not in read_page(web, origin)
    web.post("/logout")
    sign_in(web, "ines")
    assert "thought" not in read_page(web, origin)


def test_what_nobody_is_known_to_have_typed_and_secrets_are_not_kept(web: Client) -> None:
    following = send_signed_out(web, "/settings/password", "/settings/password", {"old_password": "x", "body": "y"})
    assert web.get(sign_in(web, "ines", following)).context["kept"] is None
    stranger = Client()
    action, origin, fields = FORMS[0]
    assert send_signed_out(stranger, action, origin, fields) == origin
    sign_in(stranger, "ines")
    assert "thought" not in read_page(stranger, origin)
    elsewhere = stranger.post(action, fields, headers={"referer": "https://evil.example/x"})
    assert elsewhere.status_code == 302


def test_no_address_answers_with_an_empty_page(web: Client) -> None:
    answer = web.get(f"{PULL}/comment")
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert "This address does not take GET." in answer.content.decode()
    assert web.post("/r/shop/commits").content
