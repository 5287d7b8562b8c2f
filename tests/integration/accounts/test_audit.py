"""The audit log: what is in it, that nothing of it can be changed unseen, and how it is looked through."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client

from tests.factories import fsck
from tests.factories.catalog import Catalog, field
from tests.factories.disks import filled, small_disk
from tests.factories.loops import run_loop
from webapp.accounts.models import AuditEntry, AuditGap, AuditHead
from webapp.accounts.queries import principal_for_user
from webapp.accounts.queries.audit import head_path
from webapp.accounts.rules.audit import HOURLY
from webapp.accounts.services import create_token, note_reading, readings, record_audit
from webapp.accounts.services.audit import seal_audit
from webapp.accounts.services.checking import check_audit_chain
from webapp.accounts.services.retention import remove_old_entries
from webapp.core import clock
from webapp.core.fsck import Finding
from webapp.core.principals import JobScope, Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rest_framework.test import APIClient

    from webapp.accounts.models import User

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
MIRA = Principal(user_id=1, username="mira")


@pytest.fixture(autouse=True)
def _empty(home: Path) -> Iterator[None]:
    """Begin with nothing counted, and a home without a chain."""
    readings._pending.clear()
    readings._refused.clear()
    yield
    readings._pending.clear()
    readings._refused.clear()


@pytest.fixture
def _one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock: what is counted by the minute would be two entries across the end of one."""
    minute = clock.now()
    monkeypatch.setattr(clock, "now", lambda: minute)


def find_codes() -> set[str]:
    codes = {finding.code for finding in check_audit_chain() if isinstance(finding, Finding)}
    fsck.named.update(codes)
    return codes


def write_entries(count: int) -> None:
    for number in range(count):
        record_audit(by=MIRA, verb="try", object=f"object {number}", detail={"number": number})
    seal_audit()


def test_a_whole_chain_has_no_finding() -> None:
    assert find_codes() == set()
    write_entries(3)
    write_entries(2)
    assert find_codes() == set()
    assert list(AuditEntry.objects.order_by("id").values_list("position", flat=True)) == [1, 2, 3, 4, 5]


@pytest.mark.damage("audit_changed")
@pytest.mark.parametrize("column", ["actor", "verb", "object", "outcome", "branch", "job_id"])
def test_a_changed_entry_is_seen(column: str) -> None:
    write_entries(3)
    AuditEntry.objects.filter(position=2).update(**{column: "forged"})
    assert find_codes() == {"audit_changed"}


@pytest.mark.damage("audit_gap")
def test_an_entry_that_was_taken_out_is_seen() -> None:
    write_entries(3)
    AuditEntry.objects.filter(position=2).delete()
    assert "audit_gap" in find_codes()


def cut_tail() -> str:
    """Restore an older state of the log, as from a backup of the database; return what the home has seen."""
    write_entries(2)
    older = AuditHead.objects.values("position", "chain", "mac").get()
    write_entries(2)
    head = head_path().read_text()
    AuditEntry.objects.filter(position__gt=2).delete()
    AuditHead.objects.update(**older)
    return head


@pytest.mark.damage("audit_cut")
def test_a_cut_tail_is_seen() -> None:
    write_entries(3)
    AuditEntry.objects.filter(position=3).delete()
    assert find_codes() == {"audit_cut"}


def test_a_cut_tail_with_an_older_end_beside_it_is_seen_by_the_file() -> None:
    """Who may write the database puts back the end of before, which is genuine: the home knows better, and keeps it."""
    head = cut_tail()
    assert find_codes() == {"audit_cut"}
    write_entries(1)
    assert head_path().read_text() == head
    assert find_codes() == {"audit_cut"}


def test_a_cut_after_a_restore_is_accepted_once_by_an_admin(admin: User, make_user: Callable[..., User]) -> None:
    head = json.loads(cut_tail())
    assert find_codes() == {"audit_cut"}
    for name in (make_user("writer").username, "no-such-user"):
        with pytest.raises(CommandError):
            call_command("accept_audit_cut", name, reason="because")
    assert find_codes() == {"audit_cut"}
    call_command("accept_audit_cut", admin.username, reason="restored the backup of Friday", stdout=io.StringIO())
    assert find_codes() == set()
    entry = AuditEntry.objects.get(verb="accept_audit_cut")
    assert (entry.actor, entry.position, entry.detail["position"]) == ("admin", 3, head["position"])
    assert entry.detail["reason"] == "restored the backup of Friday"
    assert json.loads(head_path().read_text())["position"] == 3
    with pytest.raises(CommandError, match="has all entries"):
        call_command("accept_audit_cut", admin.username, reason="again")
    write_entries(2)
    head_path().write_text(json.dumps(head))  # an old copy of the file, kept elsewhere
    assert find_codes() == set()
    AuditEntry.objects.filter(verb="accept_audit_cut").delete()
    assert find_codes() >= {"audit_gap", "audit_cut"}


def test_an_acceptance_takes_the_secret_key(admin: User, settings: Any) -> None:
    head = json.loads(cut_tail())
    cut = {"position": head["position"], "chain": head["chain"], "mac": head["mac"]}
    record_audit(by=principal_for_user(admin), verb="accept_audit_cut", object="audit", detail=cut)
    seal_audit()
    assert find_codes() == {"audit_cut"}
    settings.SECRET_KEY = "another-key-of-these-tests"
    with pytest.raises(CommandError, match="another TRIBUTARY_SECRET_KEY"):
        call_command("accept_audit_cut", admin.username, reason="because")


def test_another_cut_is_found_after_one_was_accepted(admin: User) -> None:
    cut_tail()
    call_command("accept_audit_cut", admin.username, reason="restored", stdout=io.StringIO())
    older = AuditHead.objects.values("position", "chain", "mac").get()
    write_entries(2)
    AuditEntry.objects.filter(position__gt=3).delete()
    AuditHead.objects.update(**older)
    assert find_codes() == {"audit_cut"}


def test_full_disk_leaves_no_copies_of_the_head(tmp_path: Path, settings: Any) -> None:
    write_entries(1)
    with small_disk(tmp_path) as home:
        settings.TRIBUTARY_HOME = home
        with filled(home):
            for _ in range(5):
                record_audit(by=MIRA, verb="create_repository", object="/shop")
                with pytest.raises(OSError, match="No space left"):
                    seal_audit()
            assert [file.name for file in home.iterdir()] == [".ballast"]
        record_audit(by=MIRA, verb="create_repository", object="/shop")
        seal_audit()
        assert head_path().exists()


@pytest.mark.damage("audit_forged", "audit_head_file")
def test_a_chain_computed_anew_without_the_key_is_seen() -> None:
    write_entries(3)
    AuditEntry.objects.filter(position=3).delete()
    chain = AuditEntry.objects.get(position=2).chain
    AuditHead.objects.update(position=2, chain=chain)
    head_path().unlink()
    assert find_codes() >= {"audit_forged", "audit_head_file"}


def test_another_key_is_named(settings: Any) -> None:
    write_entries(1)
    settings.SECRET_KEY = "another-key-of-these-tests"
    assert find_codes() == {"audit_forged"}


@pytest.mark.damage("audit_head")
def test_a_database_that_lost_the_end_of_its_chain_is_named() -> None:
    write_entries(1)
    AuditHead.objects.all().delete()
    assert find_codes() == {"audit_head"}


@pytest.mark.damage("audit_unsealed")
def test_what_the_sweep_forgets_is_seen() -> None:
    record_audit(by=MIRA, verb="try", object="late")
    AuditEntry.objects.update(at=clock.now() - timedelta(hours=1))
    assert find_codes() == {"audit_unsealed"}


@pytest.mark.usefixtures("_one_minute")
def test_reads_are_one_entry_per_person_object_and_minute() -> None:
    job = Principal(user_id=1, username="mira", job=JobScope("j1", "_job/j1", "b", ("b",)))
    for by in (MIRA, MIRA, job):
        note_reading(by=by, verb="read_preview", object="/shop/orders", branch="b")
    readings.flush_readings()
    note_reading(by=MIRA, verb="read_preview", object="/shop/orders", branch="b")
    readings.flush_readings()
    rows = AuditEntry.objects.order_by("job_id").values_list("actor", "job_id", "verb", "object", "branch", "count")
    assert list(rows) == [
        ("mira", "", "read_preview", "/shop/orders", "b", 3),
        ("mira", "j1", "read_preview", "/shop/orders", "b", 1),
    ]


def test_reads_of_code_are_one_entry_per_person_repository_and_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now().replace(minute=1, second=0)
    for minutes in (0, 30, 57):
        monkeypatch.setattr(clock, "now", lambda minutes=minutes: now + timedelta(minutes=minutes))
        for verb in HOURLY:
            note_reading(by=MIRA, verb=verb, object="nyc")
        readings.flush_readings()
        seal_audit()
        assert find_codes() == set()
    rows = AuditEntry.objects.order_by("verb").values_list("actor", "verb", "object", "count", "position")
    assert list(rows) == [("mira", verb, "nyc", 3, None) for verb in sorted(HOURLY)]
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(minutes=62))
    note_reading(by=MIRA, verb="clone", object="nyc")
    readings.flush_readings()
    seal_audit()
    assert AuditEntry.objects.exclude(position=None).count() == 3
    assert list(AuditEntry.objects.filter(verb="clone").order_by("at").values_list("count", flat=True)) == [3, 1]
    monkeypatch.setattr(clock, "now", lambda: now + timedelta(hours=3))
    assert find_codes() == {"audit_unsealed"}


@pytest.mark.usefixtures("_one_minute")
def test_counts_of_several_processes_are_added_and_sealed_when_their_minute_is_over() -> None:
    note_reading(by=MIRA, verb="read_preview", object="/shop/orders")
    [reading] = readings._pending

    def write() -> None:
        for _ in range(5):
            readings._add(reading, 2)
        connection.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert list(AuditEntry.objects.values_list("count", flat=True)) == [40]
    seal_audit()
    assert AuditEntry.objects.get().position is None
    AuditEntry.objects.update(at=clock.now() - timedelta(minutes=2))
    seal_audit()
    assert AuditEntry.objects.get().position == 1
    readings._add(reading, 1)  # so late that its row is sealed: another one
    assert sorted(AuditEntry.objects.values_list("count", flat=True)) == [1, 40]
    assert find_codes() == set()


@pytest.mark.usefixtures("_one_minute")
def test_a_flood_of_different_refusals_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    flush = readings.flush_readings
    monkeypatch.setattr(readings, "flush_readings", int)  # the thread that another test may have started
    monkeypatch.setattr(readings, "MOST_PENDING", 10)
    client = Client()
    for number in range(50):
        client.get(f"/api/v1/datasets/{number}")
    flush()
    assert AuditEntry.objects.count() == 11
    assert AuditEntry.objects.get(object="(many)").count == 40


def test_refusals_of_every_door_are_kept(
    admin: User, make_user: Callable[..., User], api_client: Callable[..., APIClient], client: Client
) -> None:
    stranger = make_user("stranger")
    secret = create_token(user=stranger, name="t", scopes=["read"])[1]
    own = Catalog(create_token(user=admin, name="t")[1])
    own.create_namespace("shop")
    own.create_table("shop.orders", field(1, "id"))
    strange = Catalog(secret)
    client.get("/api/v1/audit", headers={"Authorization": "Bearer trb_unknown"})
    client.get("/api/v1/audit", headers={"Authorization": f"Bearer {secret}"})
    client.post("/api/v1/groups", headers={"Authorization": f"Bearer {secret}"})
    client.get("/builds")
    client.force_login(stranger)
    client.get("/settings/audit")
    client.get("/r/none")
    strange.call("GET", "namespaces/shop/tables/orders")
    Catalog("trb_unknown").call("GET", "namespaces")
    readings.flush_readings()
    refused = AuditEntry.objects.filter(outcome="refused").order_by("id")
    assert {(entry.actor, entry.verb, entry.object, entry.detail["status"]) for entry in refused} == {
        ("anonymous", "request_get", "/api/v1/audit", 401),
        ("stranger", "request_get", "/api/v1/audit", 403),
        ("stranger", "request_post", "/api/v1/groups", 403),
        ("anonymous", "request_get", "/builds", 401),
        ("stranger", "request_get", "/settings/audit", 403),
        ("stranger", "request_get", "/r/none", 404),
        ("stranger", "request_get", "/iceberg/v1/namespaces/shop/tables/orders", 404),
        ("anonymous", "request_get", "/iceberg/v1/namespaces", 401),
    }


def test_a_catalog_commit_leaves_one_entry_with_its_snapshot(admin: User) -> None:
    catalog = Catalog(create_token(user=admin, name="t")[1])
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", field(1, "id"))
    before = AuditEntry.objects.count()
    catalog.append("shop.orders")
    [entry] = AuditEntry.objects.all()[: AuditEntry.objects.count() - before]
    assert (entry.actor, entry.verb, entry.object, entry.branch) == ("admin", "commit_table", "/shop/orders", "master")
    assert entry.detail["snapshots"] == {"master": str(catalog.load("shop.orders").metadata["current-snapshot-id"])}


def test_a_refused_act_leaves_no_entry_of_an_act(admin: User) -> None:
    """The entry is in the act's transaction: what is undone was not done."""
    catalog = Catalog(create_token(user=admin, name="t")[1])
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", field(1, "id"))
    before = AuditEntry.objects.count()
    assert catalog.call("DELETE", "namespaces/shop").status == 409
    assert AuditEntry.objects.count() == before


HOSTILE = "=HYPERLINK(1)\r\nforged,entry\x1b[31m\u202e\u2028"


def test_exports_have_neither_formulas_nor_lines_nor_colours_of_others(
    admin: User, api_client: Callable[..., APIClient]
) -> None:
    record_audit(by=principal_for_user(admin), verb="try", object=HOSTILE, detail={"=a\n": ["\x1b]0;x\x07"]})
    client = api_client(admin)
    answer = client.get("/api/v1/audit.csv?verb=try")
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    [row] = csv.DictReader(io.StringIO(text))
    assert text.count("\n") == 2
    assert not any(character < " " or character == "\u202e" for character in text.replace("\r\n", ""))
    assert row["object"].startswith("'=HYPERLINK(1)\\r\\n")
    lines = b"".join(client.get("/api/v1/audit.jsonl?verb=try").streaming_content).decode()  # type: ignore[attr-defined]
    [entry] = [json.loads(line) for line in lines.splitlines()]
    assert entry["detail"] == {"=a\\n": ["\\x1b]0;x\\x07"]}
    assert AuditEntry.objects.filter(verb="export_audit").count() == 2


def test_audit_page_exports_its_filters(admin: User, client: Client) -> None:
    for verb in ("one", "two"):
        record_audit(by=MIRA, verb=verb, object="/shop/orders")
    client.force_login(admin)
    filters = (
        "actor=mira&verb=one&object=&branch=&outcome=&since=2020-01-01T00:00:00Z&until=&utm_source=mail&before=999999"
    )
    page = client.get(f"/settings/audit?{filters}").content.decode()
    links = re.findall(r'href="(/api/v1/audit\.\w+\?[^"]*)"', page)
    assert len(links) == 2
    for link in links:
        answer = client.get(html.unescape(link))
        assert answer.status_code == 200, link
        text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
        assert ("one" in text, "two" in text) == (True, False)


def test_the_log_is_filtered_by_each_of_its_parts(admin: User, api_client: Callable[..., APIClient]) -> None:
    record_audit(by=MIRA, verb="one", object="/shop/orders", branch="b", outcome="refused")
    record_audit(by=principal_for_user(admin), verb="two", object="/other")
    AuditEntry.objects.filter(verb="two").update(at=clock.now() - timedelta(days=2))
    client = api_client(admin)
    day_ago = (clock.now() - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for query in ("actor=mira", "verb=one", "object=/shop", "branch=b", "outcome=refused"):
        found = client.get(f"/api/v1/audit?{query}").json()["results"]
        assert [entry["verb"] for entry in found] == ["one"], query
    assert [entry["verb"] for entry in client.get(f"/api/v1/audit?until={day_ago}").json()["results"]] == ["two"]
    since = {entry["verb"] for entry in client.get(f"/api/v1/audit?since={day_ago}").json()["results"]}
    assert "one" in since
    assert "two" not in since
    assert client.get("/api/v1/audit?outcome=maybe").status_code == 422


def test_the_page_is_for_admins_and_pages_through_the_log(
    admin: User, make_user: Callable[..., User], client: Client
) -> None:
    client.force_login(make_user("writer"))
    assert client.get("/settings/audit").status_code == 403
    client.force_login(admin)
    for number in range(230):
        record_audit(by=MIRA, verb="try", object=f"<b>{number}</b>")
    first = client.get("/settings/audit?verb=try")
    assert first.content.count(b"<tr>") == 101
    assert b"&lt;b&gt;229&lt;/b&gt;" in first.content
    last = AuditEntry.objects.filter(verb="try").values_list("pk", flat=True)[199]
    third = client.get(f"/settings/audit?verb=try&before={last}")
    assert third.content.count(b"<tr>") == 31
    assert client.get("/settings/audit?actor=nobody").content.count(b"No entry matches") == 1
    wrong = client.get("/settings/audit?since=yesterday")
    assert wrong.status_code == 422
    assert b"cannot be read" in wrong.content


def write_old(days: int, *, reads: int = 0, acts: int = 0) -> None:
    """Seal entries that were written so many days ago."""
    at = clock.now() - timedelta(days=days)
    for number in range(reads):
        AuditEntry.objects.create(
            at=at, actor="mira", verb="read_preview", object=f"/o{number}", batch=f"{days}.{number}"
        )
    for number in range(acts):
        AuditEntry.objects.create(at=at, actor="mira", verb="try", object=f"old {number}")
    seal_audit()


def test_old_reads_go_and_the_chain_of_what_stays_is_whole(settings: Any, admin: User, client: Client) -> None:
    settings.TRIBUTARY_AUDIT_READ_DAYS, settings.TRIBUTARY_AUDIT_DAYS = 10, 0
    for days in (30, 20, 5):
        write_old(days, reads=3, acts=2)
    assert remove_old_entries() == {"audit entries removed": 6}
    seal_audit()
    assert find_codes() == set()
    assert AuditEntry.objects.filter(verb="read_preview").count() == 3
    assert AuditEntry.objects.filter(verb="try").count() == 6
    removal = AuditEntry.objects.get(verb="remove_old_audit_entries")
    assert (removal.actor, removal.detail["entries"], removal.detail["what"]) == ("system", 6, "reads and refusals")
    assert remove_old_entries() == {}
    client.force_login(admin)
    page = " ".join(client.get("/settings/audit").content.decode().split())
    assert "Reads and refusals are kept for 10 days, all else for ever." in page
    settings.TRIBUTARY_AUDIT_DAYS = 10
    assert remove_old_entries() == {"audit entries removed": 4}
    assert list(AuditGap.objects.values_list("first", "last")) == [(1, 10)]
    seal_audit()
    assert find_codes() == set()


def test_a_gap_that_nobody_with_the_key_made_is_seen(settings: Any) -> None:
    settings.TRIBUTARY_AUDIT_READ_DAYS = 10
    write_old(30, reads=2, acts=1)
    write_old(0, acts=2)
    entry = AuditEntry.objects.get(position=3)
    AuditGap.objects.create(first=3, last=3, chain=entry.chain, mac="0" * 64)
    entry.delete()
    assert find_codes() == {"audit_forged"}
    remove_old_entries()  # the gap beside it does not make it genuine
    seal_audit()
    assert find_codes() == {"audit_forged"}


def test_what_was_changed_after_a_removal_is_seen(settings: Any) -> None:
    settings.TRIBUTARY_AUDIT_READ_DAYS = 10
    write_old(30, reads=2, acts=2)
    remove_old_entries()
    seal_audit()
    AuditGap.objects.update(last=3)
    AuditEntry.objects.filter(position=3).delete()
    assert "audit_forged" in find_codes()


def test_the_last_entry_stays_however_old(settings: Any) -> None:
    settings.TRIBUTARY_AUDIT_READ_DAYS = settings.TRIBUTARY_AUDIT_DAYS = 1
    write_old(30, reads=3)
    assert remove_old_entries() == {"audit entries removed": 2}
    assert find_codes() == set()


@pytest.mark.usefixtures("_one_minute")
def test_different_refusals_of_a_minute_are_bounded(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "MOST_REFUSED", 5)
    for number in range(20):
        client.generic("GET" if number % 2 else f"M{number}" * 40, f"/api/v1/datasets/{number}")
        readings.flush_readings()
    assert AuditEntry.objects.count() == 6
    many = AuditEntry.objects.get(object="(many)")
    assert (many.verb, many.count) == ("request", 15)


@pytest.mark.usefixtures("_one_minute")
@pytest.mark.parametrize(
    ("path", "method", "headers", "status"),
    [
        ("/api/v1/audit", "GET", [(b"content-length", b"5")], 400),
        ("/login", "POST", [(b"content-length", b"900000")], 401),
        ("/events/builds/1", "GET", [(b"content-length", b"5")], 400),
        ("/iceberg/v1/namespaces", "GET", [(b"content-length", b"5")], 400),
        ("/git/x.git/info/refs", "GET", [(b"content-length", b"5")], 400),
    ],
)
def test_what_the_event_loop_refuses_is_counted(
    path: str, method: str, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    for _ in range(3):
        assert ask_loop(path, method, headers) == status
    readings.flush_readings()
    [entry] = AuditEntry.objects.all()
    assert (entry.actor, entry.verb, entry.object, entry.count) == ("anonymous", f"request_{method.lower()}", path, 3)
    assert (entry.detail["status"], entry.detail["address"]) == (status, "192.0.2.1")


def ask_loop(path: str, method: str, headers: list[tuple[bytes, bytes]], body: bytes | None = None) -> int:
    """Send a head to the application, and a body or one that never comes; return the answer's status."""
    from webapp.config.asgi import application

    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"} if body is None else {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("192.0.2.1", 5), "server": ("localhost", 80), "http_version": "1.1",
    }  # fmt: skip
    run_loop(application(scope, receive, send))
    return statuses[0]


def test_an_upload_while_the_database_is_away_is_a_503() -> None:
    """Who sends a long body is looked up by the event loop, before any view could say what failed."""
    headers = [(b"content-length", b"5"), (b"authorization", b"Bearer t")]
    with mock.patch("webapp.config.asgi.find_sender", side_effect=OperationalError("the server ended the connection")):
        assert ask_loop("/api/v1/datasets/1/upload", "POST", headers, b"a\n1\n2") == 503
