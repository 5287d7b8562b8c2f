"""Webhooks against a real receiver: what it is told and how that is signed, tried again, and never told to this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps

from tests.factories import repositories as make
from webapp.accounts.models import User
from webapp.core import clock, outgoing
from webapp.core.errors import Conflict, InvalidInput
from webapp.core.sealed import unseal
from webapp.pulls import services as pulls
from webapp.repositories import services
from webapp.repositories.models import Delivery, Repository, Webhook
from webapp.repositories.rules.webhooks import EVENTS, MOST_TEXT, MOST_TRIES
from webapp.repositories.services.webhooks import deliver, start_delivery

if TYPE_CHECKING:
    from django.test import Client
    from rest_framework.test import APIClient

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
SECRET = "between us"
API = "/api/v1/repositories/shop/webhooks"


class Receiver(ThreadingHTTPServer):
    """Keeps what it is told, and answers as a test wants."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: list[tuple[dict[str, str], bytes]] = []
        self.status = 204

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?from=tests"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told.append(({key.lower(): value for key, value in self.headers.items()}, body))
        self.send_response(self.server.status)
        self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def ines(home: Path, admin: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Principal:
    """The maker of repository shop; webhooks may lead to this machine, and nobody answers the doorbell."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    settings.TRIBUTARY_WEBHOOK_HOSTS = frozenset({"127.0.0.1"})
    return make.a_person("ines")


@pytest.fixture
def repository(ines: Principal) -> Repository:
    return make.a_repository("shop", by=ines)


def hook(repository: Repository, url: str, by: Principal, *events: str, secret: str = SECRET) -> Webhook:
    return services.add_webhook(repository=repository, url=url, events=events or EVENTS, secret=secret, by=by)


def deliver_all() -> None:
    for pk in Delivery.objects.order_by("pk").values_list("pk", flat=True):
        deliver(delivery_id=pk)


def test_events_are_told_and_signed(repository: Repository, ines: Principal, receiver: Receiver) -> None:
    hook(repository, receiver.url, ines)
    make.a_branch(repository, "feature", by=ines)
    sha = make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines).sha
    pull = pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)
    pulls.add_comment(pull=pull, body="Why?", by=ines)
    pulls.add_review(pull=pull, verdict="comment", body="So so", by=ines)
    pulls.close_pull(pull=pull, by=ines)
    deliver_all()

    told = [(headers, json.loads(body)) for headers, body in receiver.told]
    assert [(one["event"], one.get("action", one.get("branch"))) for _, one in told] == [
        ("push", "feature"),
        ("push", "feature"),
        ("pull_request", "opened"),
        ("comment", "created"),
        ("review", "comment"),
        ("pull_request", "closed"),
    ]
    assert (told[1][1]["after"], told[1][1]["by"]) == (sha, "ines")
    assert told[2][1]["pull_request"]["number"] == pull.number
    for headers, body in receiver.told:
        expected = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert headers["x-tributary-signature-256"] == f"sha256={expected}"
    assert len({headers["x-tributary-delivery"] for headers, _ in receiver.told}) == len(receiver.told)
    deliver_all()
    assert len(receiver.told) == len(told), "what was taken is not told again"


@pytest.mark.parametrize("shape", ["slack", "teams"])
def test_people_are_told_in_the_shape_that_their_program_takes(
    repository: Repository, ines: Principal, receiver: Receiver, shape: str, settings: Any
) -> None:
    services.add_webhook(repository=repository, url=receiver.url, secret=SECRET, shape=shape, by=ines)
    make.a_branch(repository, "feature", by=ines)
    sha = make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines).sha
    pull = pulls.open_pull(repository=repository, title="A <b> & *c*", source="feature", target="master", by=ines)
    pulls.add_comment(pull=pull, body="<!channel> [x](https://evil.example)", by=ines)
    pulls.add_review(pull=pull, verdict="comment", body="long " * 1000, by=ines)
    pulls.close_pull(pull=pull, by=ines)
    deliver_all()
    read = read_slack if shape == "slack" else read_card
    messages = [read(json.loads(body)) for _headers, body in receiver.told]
    page = f"{settings.TRIBUTARY_URL}/r/shop"
    review = messages.pop(4)
    assert messages == [
        (f"[shop] ines moved feature to {repository.git.get_head('master')[:7]}", f"{page}/"),
        (f"[shop] ines moved feature to {sha[:7]}", f"{page}/"),
        ("[shop] ines opened A <b> & *c* (#1)", f"{page}/pulls/1"),
        ("[shop] ines commented on A <b> & *c* (#1): <!channel> [x](https://evil.example)", f"{page}/pulls/1"),
        ("[shop] ines closed A <b> & *c* (#1)", f"{page}/pulls/1"),
    ]
    assert review[0].startswith("[shop] ines reviewed A <b> & *c* (#1): long long")
    assert len(review[0]) == MOST_TEXT
    headers, body = receiver.told[0]
    expected = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-tributary-signature-256"] == f"sha256={expected}"


def read_slack(message: dict[str, Any]) -> tuple[str, str]:
    """Text and link of what Slack shows; nothing of it is markup."""
    (section,) = message["blocks"]
    assert section["text"]["type"] == "plain_text"
    assert html.unescape(message["text"]) == section["text"]["text"]
    assert "<" not in message["text"]
    return section["text"]["text"], section["accessory"]["url"]


def read_card(message: dict[str, Any]) -> tuple[str, str]:
    """Text and link of a card of Teams; runs of text know no Markdown."""
    (attachment,) = message["attachments"]
    card = attachment["content"]
    assert (message["type"], card["type"], card["body"][0]["type"]) == ("message", "AdaptiveCard", "RichTextBlock")
    return card["body"][0]["inlines"][0]["text"], card["actions"][0]["url"]


def test_a_secret_cannot_be_read_from_the_database_and_another_key_is_named(
    repository: Repository, ines: Principal, receiver: Receiver, settings: Any
) -> None:
    webhook = hook(repository, receiver.url, ines)
    another = hook(repository, receiver.url, ines)
    stored = Webhook.objects.get(pk=webhook.pk).secret
    assert SECRET not in stored
    assert SECRET.encode() not in base64.b64decode(stored.partition(":")[2])
    assert stored != Webhook.objects.get(pk=another.pk).secret
    make.a_commit(repository, {"a.txt": "a\n"}, by=ines)
    settings.SECRET_KEY = "another-key-of-these-tests"
    deliver_all()
    assert receiver.told == []
    assert "under another TRIBUTARY_SECRET_KEY: set it again" in Delivery.objects.all()[0].reason
    forged = stored[:-8] + ("A" if stored[-8] != "A" else "B") + stored[-7:]
    with pytest.raises(Conflict):
        unseal(forged, purpose="webhook's secret")


def test_secrets_of_before_are_sealed_by_the_migration_and_opened_by_its_reverse(
    repository: Repository, ines: Principal, receiver: Receiver
) -> None:
    migration = import_module("webapp.repositories.migrations.0005_seal_webhook_secrets")
    webhook = hook(repository, receiver.url, ines)
    Webhook.objects.update(secret=SECRET)
    for _ in range(2):
        migration.seal_secrets(apps, None)
        stored = Webhook.objects.get(pk=webhook.pk).secret
        assert unseal(stored, purpose="webhook's secret") == SECRET
    migration.unseal_secrets(apps, None)
    assert Webhook.objects.get(pk=webhook.pk).secret == SECRET


def test_only_chosen_events_are_told(repository: Repository, ines: Principal, receiver: Receiver) -> None:
    hook(repository, receiver.url, ines, "review", secret="")
    make.a_commit(repository, {"a.txt": "a\n"}, by=ines)
    assert not Delivery.objects.exists()


def test_a_deleted_branch_is_a_push_to_nothing(repository: Repository, ines: Principal, receiver: Receiver) -> None:
    head = make.a_branch(repository, "feature")
    hook(repository, receiver.url, ines, "push")
    services.delete_branch(repository=repository, name="feature", by=ines)
    deliver_all()
    [(_, body)] = receiver.told
    told = json.loads(body)
    assert (told["branch"], told["before"], told["after"], told["by"]) == ("feature", head, None, "ines")


@pytest.mark.parametrize("status", [500, 404, 302])
def test_what_is_not_taken_is_tried_again_and_then_given_up(
    repository: Repository, ines: Principal, receiver: Receiver, status: int
) -> None:
    hook(repository, receiver.url, ines, secret="")
    receiver.status = status
    make.a_commit(repository, {"a.txt": "a\n"}, by=ines)
    (delivery,) = Delivery.objects.all()
    pauses = []
    for _ in range(MOST_TRIES):
        deliver(delivery_id=delivery.pk)
        deliver(delivery_id=delivery.pk)  # not due
        delivery.refresh_from_db()
        pauses.append(delivery.due_at)
        Delivery.objects.exclude(due_at=None).update(due_at=clock.now() - timedelta(seconds=1))
    assert (len(receiver.told), delivery.tries, delivery.status) == (MOST_TRIES, MOST_TRIES, status)
    assert delivery.reason == f"It answered {status}"
    assert [pause is None for pause in pauses] == [False] * (MOST_TRIES - 1) + [True]
    assert "x-tributary-signature-256" not in receiver.told[0][0]


@pytest.mark.usefixtures("silent_bell")
def test_a_lost_ring_is_repeated_and_old_deliveries_go(
    repository: Repository, ines: Principal, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(repository, receiver.url, ines)
    make.a_commit(repository, {"a.txt": "a\n"}, by=ines)
    rung: list[int] = []
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, id, **_kwargs: rung.append(id))
    assert services.sweep_deliveries() == 1
    assert rung == list(Delivery.objects.values_list("pk", flat=True))
    Delivery.objects.update(due_at=None, created_at=clock.now() - timedelta(days=30))
    assert services.sweep_deliveries() == 0
    assert not Delivery.objects.exists()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1", "[::ffff:127.0.0.1]"]
)
def test_this_machine_and_private_networks_are_told_nothing(
    repository: Repository, ines: Principal, settings: Any, host: str
) -> None:
    settings.TRIBUTARY_WEBHOOK_HOSTS = frozenset()
    hook(repository, f"http://{host}:9/", ines)
    make.a_commit(repository, {"a.txt": "a\n"}, by=ines)
    deliver_all()
    (delivery,) = Delivery.objects.all()
    assert (delivery.status, delivery.due_at is not None) == (0, True)
    assert "private networks" in delivery.reason


@pytest.mark.parametrize(
    "url", ["", "ftp://a.example/", "file:///etc/passwd", "https://", "https://me:pw@a.example/", "http://a b/", "x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        outgoing.check_url(url)
    assert refused.value.errors is not None


def test_the_rest_api(
    repository: Repository, ines: Principal, receiver: Receiver, api_client: Callable[..., APIClient]
) -> None:
    client = api_client(User.objects.get(pk=ines.user_id))
    made = client.post(API, {"url": receiver.url, "events": ["push"], "secret": SECRET}, format="json")
    assert (made.status_code, made.json()["events"]) == (201, ["push"])
    assert SECRET not in made.content.decode() + client.get(API).content.decode()
    make.a_commit(repository, {"a.txt": "a\n"}, by=ines)
    deliver_all()
    here = f"{API}/{made.json()['id']}"
    (delivery,) = client.get(f"{here}/deliveries").json()["results"]
    assert (delivery["event"], delivery["status"], delivery["due_at"]) == ("push", 204, None)
    for wrong in ({"url": "nowhere"}, {"url": receiver.url, "events": ["rain"]}, {"url": receiver.url, "events": []}):
        assert client.post(API, wrong, format="json").status_code == 422
    assert client.delete(here).status_code == 204
    assert client.get(here).status_code == 404

    writer = make.a_member(repository, "writer")
    assert api_client(User.objects.get(pk=writer.user_id)).get(API).status_code == 403
    assert api_client(User.objects.get(pk=make.a_person().user_id)).get(API).status_code == 404


def test_the_settings_page(repository: Repository, ines: Principal, receiver: Receiver, client: Client) -> None:
    client.force_login(User.objects.get(pk=ines.user_id))
    fields = {"form": "webhook", "webhook-url": receiver.url, "webhook-events": ["push"], "webhook-secret": SECRET}
    assert client.post("/r/shop/settings", fields).status_code == 302
    make.a_commit(repository, {"a.txt": "a\n"}, by=ines)
    receiver.status = 500
    deliver_all()
    page = client.get("/r/shop/settings").content.decode()
    assert receiver.url in page
    assert "It answered 500" in page
    assert SECRET not in page
    assert "is no address" in client.post("/r/shop/settings", {**fields, "webhook-url": "no"}).content.decode()
    client.post("/r/shop/settings/webhooks/remove", {"webhook": Webhook.objects.get().pk})
    assert not Webhook.objects.exists()
    client.force_login(User.objects.get(pk=make.a_member(repository, "writer").user_id))
    assert "Webhooks" not in client.get("/r/shop/settings").content.decode()


def test_a_secure_address_is_told_where_its_certificate_is_trusted(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
    url = receiver.url.replace("http://127.0.0.1", "https://localhost")
    trusted = frozenset({"localhost"})

    with pytest.raises(outgoing.Unreachable, match="certificate verify failed"):
        outgoing.post(url, body=b"{}", headers={}, trusted=trusted)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert outgoing.post(url, body=b"{}", headers={"X-One": "1"}, trusted=trusted) == 204
    assert receiver.told[-1][0]["host"] == f"localhost:{receiver.server_port}"


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_never_answers_holds_no_thread_of_the_worker(
    repository: Repository, ines: Principal, receiver: Receiver
) -> None:
    other = make.a_repository("other", by=ines)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hook(repository, f"http://127.0.0.1:{silent.getsockname()[1]}/", ines)
        hook(other, receiver.url, ines)
        for number in range(4):
            make.a_branch(repository, f"b{number}", by=ines)
        make.a_branch(other, "b", by=ines)
        began = time.monotonic()
        for pk in Delivery.objects.order_by("pk").values_list("pk", flat=True):
            start_delivery(delivery_id=pk)
        assert time.monotonic() - began < outgoing.TIMEOUT_S / 2
        while not receiver.told and time.monotonic() - began < 10:
            time.sleep(0.05)
        assert time.monotonic() - began < outgoing.TIMEOUT_S, "another repository's receiver waits for nobody"
        while Delivery.objects.filter(sent_at=None).exists() and time.monotonic() - began < 20:
            time.sleep(0.1)
    states = {delivery.webhook.repository_id: delivery.status for delivery in Delivery.objects.all()}
    assert states == {repository.pk: 0, other.pk: 204}
