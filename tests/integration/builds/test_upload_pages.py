"""Loading a file step by step: sent, looked at in the sandbox, loaded on a branch that its sender may write."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.factories import repositories
from tests.factories.build_rows import World, a_world
from tests.factories.pages import read_page
from webapp.accounts.models import User
from webapp.builds.models import Build, Job
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.services import builds, uploads
from webapp.core.principals import Principal
from webapp.datasets.models import Dataset

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
CSV = b"code;day;n\n007;2024-02-01;1\n008;2024-02-02;2\n"


@pytest.fixture
def world(home: Any) -> World:
    """Return a repository with one dataset."""
    return a_world()


@pytest.fixture
def client_of() -> Callable[[Principal], Client]:
    """Return the signed-in client of somebody."""

    def make(person: Principal) -> Client:
        client = Client()
        client.force_login(User.objects.get(pk=person.user_id))
        return client

    return make


def send(client: Client, content: bytes = CSV, *, name: str = "rows.csv", dataset: str = "/shop/raw") -> str:
    """Send a file; return the address of the next step."""
    answer = client.post("/upload", {"dataset": dataset, "file": SimpleUploadedFile(name, content)})
    assert answer.status_code == 302, read_page(answer)
    address: str = answer["Location"]
    return address


def test_the_way_to_a_file_begins_at_the_list_and_at_each_dataset(
    world: World, client_of: Callable[[Principal], Client]
) -> None:
    writer = client_of(repositories.a_member(world.repository, "writer"))
    assert 'href="/upload"' in read_page(writer.get("/datasets"))
    answer = writer.post("/datasets/new", {"path": "/shop/empty"})
    page = read_page(writer.get(answer["Location"]))
    assert page.count('href="/upload?dataset=%2Fshop%2Fempty&amp;branch=master"') == 2
    reader = client_of(repositories.a_member(world.repository, "reader"))
    assert "/upload?dataset" not in read_page(reader.get("/d/shop/raw"))
    assert "is not enough" in read_page(reader.get("/upload?dataset=/shop/raw"))
    assert reader.post("/upload", {"dataset": "/shop/raw"}).status_code == 403
    stranger = client_of(repositories.a_person())
    assert stranger.get("/upload?dataset=/shop/raw").status_code == 404
    assert Client().get("/upload")["Location"].startswith("/login?next=")


@pytest.mark.usefixtures("readers")
def test_the_columns_are_shown_before_anything_is_written(
    world: World, client_of: Callable[[Principal], Client]
) -> None:
    client = client_of(world.maker)
    address = send(client)
    page = read_page(client.get(address))
    for words in ("found: semicolon", "string, by the file", "date, by the file", "long, by the file", "007"):
        assert words in page, words
    assert not Build.objects.exists()
    other = read_page(client.get(f"{address}&header=0&delimiter=,", headers={"HX-Request": "true"}))
    assert "<html" not in other
    assert "column_1" in other
    broken = send(client, b'a,b\n1,2\n3,"4\n')
    assert "a quoted value is never closed" in read_page(client.get(broken))
    assert "this is not a Parquet file" in read_page(client.get(send(client, b"x", name="rows.parquet")))


@pytest.mark.usefixtures("readers")
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_types_of_json_lines_and_parquet_are_to_be_chosen_too(
    world: World, client_of: Callable[[Principal], Client], name: str, tmp_path: Path
) -> None:
    client, content = client_of(world.maker), b'{"n": 1, "x": [1]}\n'
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"n": [1], "x": [[1]]}), tmp_path / name)
        content = (tmp_path / name).read_bytes()
    address = send(client, content, name=name)
    page = read_page(client.get(f"{address}&type.n=string"))
    assert re.search(r'<select class="input coltype" name="type.n" .*?<option value="string" selected', page, re.DOTALL)
    assert page.count('<option value="long"') == 1  # a list becomes no number
    assert 'name="delimiter"' not in page
    body = {"dataset": "/shop/raw", "branch": "master", "type.n": "string"}
    client.post(address.partition("?")[0], body)
    assert (Job.objects.get().upload or {})["types"] == {"n": "string"}


@pytest.mark.usefixtures("readers")
def test_a_writer_is_told_why_not_master_and_offered_a_branch(
    world: World, client_of: Callable[[Principal], Client]
) -> None:
    writer = repositories.a_member(world.repository, "writer", "ines")
    client = client_of(writer)
    address = send(client)
    page = read_page(client.get(address))
    assert "needs the role maintainer, yours is writer" in page
    assert 'value="ines/upload"' in page
    refused = client.post(address.partition("?")[0], {"dataset": "/shop/raw", "branch": "master"})
    assert refused.status_code == 422
    assert "Nothing was loaded." in read_page(refused)
    assert not Build.objects.exists()
    body = {"dataset": "/shop/raw", "branch": "ines/upload", "mode": "append", "type.code": "string", "type.n": ""}
    answer = client.post(address.partition("?")[0], {**body, "header": "1", "delimiter": ";"})
    build = Build.objects.get()
    assert answer["Location"] == f"/builds/{build.pk}"
    upload = Job.objects.get(build=build).upload
    assert upload is not None
    assert (build.branch, upload["mode"], upload["delimiter"]) == ("ines/upload", "append", ";")
    assert upload["types"] == {"code": "string"}
    assert Path(upload["file"]).read_bytes() == CSV
    git = world.repository.git
    assert git.find_head("ines/upload") == git.find_head("master")
    assert_kept_until_loaded(client, build, address)
    Build.objects.update(state=BuildState.COMPLETED)
    assert 'href="/r/shop/pulls/new?source=ines%2Fupload"' in read_page(client.get(f"/builds/{build.pk}"))


def assert_kept_until_loaded(client: Client, build: Build, address: str) -> None:
    """Check that a file that could not be loaded is its sender's to read differently, and that it then goes."""
    job = build.jobs.get()
    builds.end_job(job=job, state=JobState.FAILED, reason="row 1: 'x' in column 'code' is no long")
    builds.advance_build(build=build)
    uploads.forget_staged_file(job=job, is_loaded=False)
    page = read_page(client.get(f"/builds/{build.pk}"))
    link = re.search(r'href="([^"]+)">Read the file differently', page)
    assert link is not None
    again = read_page(client.get(html.unescape(link[1])))
    assert '<option value="string" selected>string</option>' in again
    assert 'value="ines/upload"' in again
    uploads.forget_staged_file(job=job, is_loaded=True)
    assert client.get(address).status_code == 404


def test_a_file_may_make_its_dataset(world: World, client_of: Callable[[Principal], Client]) -> None:
    client = client_of(world.maker)
    address = send(client, dataset="/shop/new")
    assert not Dataset.objects.filter(path="/shop/new").exists()
    answer = client.post(address.partition("?")[0], {"dataset": "/shop/new", "branch": "master"})
    assert answer.status_code == 302
    assert Build.objects.get().targets == ["/shop/new"]


@pytest.mark.usefixtures("readers")
def test_what_is_refused_makes_no_dataset(world: World, client_of: Callable[[Principal], Client]) -> None:
    client = client_of(repositories.a_member(world.repository, "writer"))
    address = send(client, dataset="/shop/new")
    assert "Not master." in read_page(client.get(address))
    answer = client.post(address.partition("?")[0], {"dataset": "/shop/new", "branch": "master"})
    assert answer.status_code == 422
    assert not Dataset.objects.filter(path="/shop/new").exists()
    stranger = client_of(repositories.a_person())
    assert stranger.post("/upload", {"dataset": "/shop/new"}).status_code == 404


def test_a_file_is_its_senders_alone_and_few_are_kept(
    home: Any, world: World, client_of: Callable[[Principal], Client]
) -> None:
    client = client_of(world.maker)
    addresses = [send(client) for _ in range(5)]
    assert len(list((Path(home) / "uploads").glob("draft-*"))) == 3
    assert client.get(addresses[0]).status_code == 404
    other = client_of(repositories.a_member(world.repository, "maintainer"))
    assert other.get(addresses[-1]).status_code == 404
    assert other.post(addresses[-1].partition("?")[0], {"dataset": "/shop/raw"}).status_code == 404


@pytest.mark.parametrize(
    ("name", "dataset", "said"),
    [("rows.xlsx", "/shop/raw", "must end in"), ("rows.csv", "/shop/", "path"), ("", "/shop/raw", "Choose a file")],
)
def test_what_cannot_be_sent_is_said_on_the_page(
    world: World, client_of: Callable[[Principal], Client], name: str, dataset: str, said: str
) -> None:
    body: dict[str, Any] = {"dataset": dataset}
    if name:
        body["file"] = SimpleUploadedFile(name, CSV)
    answer = client_of(world.maker).post("/upload", body)
    assert answer.status_code == 422
    assert said in read_page(answer)


def test_the_number_of_a_dataset_is_no_path(world: World, client_of: Callable[[Principal], Client]) -> None:
    number = str(Dataset.objects.get(path="/shop/raw").pk)
    client = client_of(world.maker)
    assert client.get("/upload", {"dataset": number}).status_code == 200
    answer = client.post("/upload", {"dataset": number, "file": SimpleUploadedFile("rows.csv", CSV)})
    assert answer.status_code == 422
    page = html.unescape(read_page(answer))
    assert f"'{number}' is no dataset path" in page
    assert f'name="dataset" value="{number}" required' in page


def test_unknown_types_and_delimiters_are_refused(world: World, client_of: Callable[[Principal], Client]) -> None:
    client = client_of(world.maker)
    address = send(client).partition("?")[0]
    for more in ({"delimiter": "x"}, {"type.n": "decimal"}):
        assert client.post(address, {"dataset": "/shop/raw", "branch": "b", **more}).status_code == 422
    assert not Build.objects.exists()
