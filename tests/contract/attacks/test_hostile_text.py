"""Texts that would be markup: put into every field that takes one, and looked for alive on every page that shows any.

Fields come from the forms, from the schemas of openapi.json, and from what clients, jobs and Git bring; pages from the
table of addresses and from each other's links. Nothing is looked for by its place: whatever is an element, an attribute or
an address on a page of ours is ours, and so has not the word of these texts in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.db import transaction
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from tests.factories import build_rows, datasets, repositories
from tests.factories.api_document import OWN_DOCUMENTS, read_document
from tests.factories.crawl import Answer, ask_everything, crawl
from tests.factories.everything import BODIES, QUERIES, Upload, World, list_operations, make_world
from tests.factories.forms import Form, list_forms, send
from webapp.accounts.queries import principal_for_user
from webapp.builds.models import Job
from webapp.builds.rules.states import JobState
from webapp.builds.runner import paths
from webapp.builds.services import builds
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.services import request_comparison, run_comparison
from webapp.core import clock
from webapp.dispatch.logs import LogWriter
from webapp.pulls.models import PullDataset
from webapp.repositories.models import Repository
from webapp.repositories.queries import get_head
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.services import set_publication

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
WORD = "zqxss"
SUM = "{{ 12345678|add:1 }}"
ENDS = (
    "", '"', "'", ">", '">', "'>", "/>", "`", "</title>", "</textarea>", "</script>", "</style>", "</svg>", "-->", "]]>",
    "&#x22;>", "\u2028\">", "\\\">", "\x1b]0;", "\x1b[31m", "[a](", "![a](", "```html\n", "<pre>", SUM,
)  # fmt: skip
STARTS = (
    f"<{WORD} on{WORD}=1>", f"<script>{WORD}</script>", f"<img src=x onerror={WORD}>", f"<svg/onload={WORD}>",
    f'<a href="javascript:{WORD}">a</a>', f'<iframe src="/{WORD}">', f'<div hx-get="/{WORD}" hx-trigger="load">',
    f'<form action="/{WORD}"><input autofocus>', f'<base href="//{WORD}">', f"javascript:{WORD})",
    f'<meta http-equiv="refresh" content="0;url=//{WORD}">', f" on{WORD}=1 ",
)  # fmt: skip
TEXTS = [end + start for end in ENDS for start in STARTS]
FEW = [text for text in TEXTS if text.startswith(STARTS) or text.endswith(STARTS[:1] + STARTS[-1:])]
"""Each start by itself, and each end before an element and before an attribute: what is shown once has all of them."""
WHOLE, LONG = "\n".join(TEXTS), "\n".join(FEW)
SHORT = f"\"'></title></textarea></script><{WORD} on{WORD}=1 hx-get=/{WORD}>{SUM}"
LONG_FIELDS = ("body", "content", "description", "message", "title", "details")
ADDRESSES = re.compile(r"\s*(?:javascript|vbscript|data:text)|\W*" + WORD, re.IGNORECASE)
ADDRESS_ATTRIBUTES = ("href", "src", "action", "formaction", "srcset", "poster", "content", "srcdoc")
PLAIN = (
    "application/json",
    "application/problem+json",
    "application/x-ndjson",
    "application/vnd",
    "text/csv",
    "text/plain",
)


@pytest.fixture
def world(readers: Path) -> World:
    return make_world()


def fill_forms(world: World) -> int:
    """Send each form with a hostile text in one field after another, then as it is meant; returns how many were taken."""
    taken = 0
    for form in list_forms(world):
        if form.verb == "delete_repository":
            break
        fields = [name for name, value in form.fields.items() if isinstance(value, str)]
        for name in fields if "file" not in form.fields else ():
            for text in (LONG, SHORT) if name in LONG_FIELDS else (SHORT,):
                answer = send(Form(**{**vars(form), "fields": {**form.fields, name: text}}))
                assert answer.status_code < 500, (form, name)
                if answer.status_code == 302:
                    taken += 1
                    break
        send(form)
    return taken


def fill_bodies(world: World) -> int:
    """Call each operation that writes with a hostile text in one member after another."""
    document, taken = read_document(), 0
    header = world.bearer("admin", "")
    for method, path in list_operations():
        content = document.operations[method, path].get("requestBody", {}).get("content", {})
        base = BODIES.get(f"{method} {path}", {})
        if method == "DELETE" or not content or isinstance(base, Upload):
            continue
        schema = next(iter(content.values()))["schema"]
        members = document.raw["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
        for name in [name for name, member in members.items() if "string" in str(member.get("type", ""))]:
            for text in (LONG, SHORT) if name in LONG_FIELDS else (SHORT,):
                answer = Client(raise_request_exception=False).generic(
                    method, world.address(path), _write({**base, name: text}), "application/json", headers=header
                )
                assert answer.status_code < 500, (method, path, name)
                taken += answer.status_code < 300
    return taken


def _write(body: dict[str, Any]) -> bytes:
    import json

    return json.dumps(body).encode()


def fill_data(world: World) -> None:
    """What clients write: columns, values, properties, summaries, tags; and its row diff."""
    admin = world.users["admin"]
    for branch in ("", "fresh"):
        table = datasets.a_pyiceberg(admin, branch).load_table("shop.raw")
        rows = pa.table({"id": [7, 8], SHORT: [LONG, f"{SHORT}{branch}"], "name": [SHORT, branch]})
        with table.update_schema() as update:
            update.union_by_name(rows.schema)
        table.append(rows, snapshot_properties={SHORT: LONG})
        with table.transaction() as changing:
            changing.set_properties({SHORT: LONG, "comment": LONG})
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, f"tag-{SHORT}").commit()
    row = PullDataset.objects.get(path="/shop/raw")
    row.after = row.dataset.transactions.filter(branch_name="master", state="COMMITTED").latest("number")
    row.comparison = request_comparison(
        by=None, dataset=row.dataset, rules=ComparisonRules(key=("id",)), before=row.before, after=row.after
    )
    row.save()
    for comparison in Comparison.objects.all():
        run_comparison(comparison_id=comparison.pk)


def fill_code(world: World) -> None:
    """What Git and jobs bring: names and contents of files, messages, errors, JobSpecs, logs."""
    shop = build_rows.World(Repository.objects.get(name="shop"), principal_for_user(world.users["admin"]))
    files: dict[str, str | None] = {
        f"docs/{SHORT.replace('/', '')}.py": LONG,
        "README.md": f"{WHOLE}\n\n# {SHORT}\n\n[a](/{WORD}) [b]: javascript:{WORD}",
        "page.html": LONG,
        "drawing.svg": f"<svg xmlns='http://www.w3.org/2000/svg' onload='{WORD}'/>",
    }
    repositories.a_commit(shop.repository, files, branch="fix", message=f"{SHORT}\n\n{LONG}", by=shop.maker)
    sha = get_head(shop.repository, "fix")
    errors = [{"file": SHORT, "line": 1, "message": LONG}]
    set_publication(repository=shop.repository, branch="fix", sha=sha, status=PublicationState.FAILED, errors=errors)
    job = Job.objects.get(pk=world.values["job_id"])
    log = LogWriter(paths.log_path(job.pk))
    for text in TEXTS:
        log.write(text)
    log.end("failed", 1)
    log.close()
    Job.objects.filter(pk=job.pk).update(
        state=JobState.RUNNING, attempt=1, started_at=clock.now(), lease_until=clock.now(), function=f"m:{SHORT}"
    )
    job.refresh_from_db()
    with transaction.atomic():
        builds.end_job(job=job, state=JobState.FAILED, reason=LONG[:900])
    body = encode_multipart(BOUNDARY, {"file": _named_file()})
    address = world.address("/api/v1/datasets/{dataset_id}/upload") + QUERIES.get("", "?branch=fix")
    Client().generic("POST", address, body, MULTIPART_CONTENT, headers=world.bearer("admin", ""))


def _named_file() -> Any:
    from django.core.files.uploadedfile import SimpleUploadedFile

    return SimpleUploadedFile(SHORT, b"id\n1\n")


def list_alive(answer: Answer) -> Iterator[str]:
    """What of the texts is more than text on a page."""
    for tag, attributes in answer.markup.elements:
        if WORD in tag or (tag == "script" and not attributes.get("src", "").startswith("/static/")):
            yield f"<{tag} {attributes}>"
        if tag in ("style", "base", "iframe", "object", "embed") or attributes.get("http-equiv"):
            yield f"<{tag} {attributes}>"
        for name, value in attributes.items():
            is_address = name in ADDRESS_ATTRIBUTES or name.startswith(("hx-", "data-hx-"))
            if name.startswith("on") or WORD in name or name == "style" or (is_address and ADDRESSES.match(value)):
                yield f"<{tag} {name}={value[:100]}>"
    if "12345679" in answer.text:
        yield "what a template would have made of it"


def list_faults(answer: Answer) -> Iterator[str]:
    """What is wrong with an answer."""
    kind = str(answer.headers.get("Content-Type", ""))
    policy = str(answer.headers.get("Content-Security-Policy", ""))
    if answer.status >= 500 and answer.address != "/readyz":
        yield f"status {answer.status}"
    if answer.content and (not kind or answer.headers.get("X-Content-Type-Options") != "nosniff"):
        yield f"a browser may guess what {kind or 'it'} is"
    if answer.is_page:
        yield from list_alive(answer)
        if "default-src 'none'" not in policy or "unsafe" in policy or "frame-ancestors 'none'" not in policy:
            yield f"policy {policy}"
    elif answer.content and not kind.startswith(PLAIN):
        yield f"kind {kind}"


def test_no_text_of_anybody_is_alive_on_any_page(world: World) -> None:
    assert len(TEXTS) == 300
    fill_code(world)
    fill_data(world)
    assert fill_bodies(world) > 10
    assert fill_forms(world) > 20
    client = Client(raise_request_exception=False)
    client.force_login(world.users["admin"])
    number = world.values["number"]
    more = [
        f"/r/shop/raw/fix/{name}" for name in ("page.html", "drawing.svg")
    ] + [
        "/r/shop/tree/fix", "/r/shop/blob/fix/README.md", "/r/shop/commits/fix", "/d/shop/raw?branch=fresh",
        f"/r/shop/pulls/{number}/data?dataset=/shop/raw&show=statistics", f"/search?q={WORD}", "/settings/audit",
        *(f"/d/shop/raw?branch=fresh&tab={tab}" for tab in ("preview", "schema", "history", "catalog", "branches")),
    ]  # fmt: skip
    everything = [*crawl(client, world, more=more), *ask_everything(world, "admin")]
    # The page that shows openapi.json is a library's, and has no text of anybody.
    answers = [answer for answer in everything if not answer.address.startswith(OWN_DOCUMENTS)]
    faults = {fault: answer.address for answer in answers for fault in list_faults(answer)}
    assert faults == {}, "\n".join(f"{address}: {fault}" for fault, address in faults.items())
    shown = [answer for answer in answers if WORD in answer.text]
    assert len(shown) > 60, "hardly any page shows what was put there"
    for answer in answers:
        if "/raw/" in answer.address and answer.status == 200:
            assert str(answer.headers["Content-Disposition"]).startswith("attachment")
            assert "sandbox" in str(answer.headers["Content-Security-Policy"])
