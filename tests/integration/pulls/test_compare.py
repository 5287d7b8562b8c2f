"""Any two branches or transactions of a dataset compared, through the REST API and the page."""

from __future__ import annotations

import re
import time
from typing import Any

import pyarrow.parquet as pq
import pytest
import requests

from tests.factories.builds import PIPELINE, Stack
from tests.factories.pages import read_page
from tests.integration.pulls.conftest import PASSWORD, Call

pytestmark = pytest.mark.integration
PATH = "/shop/prices"
HTMX = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def prices(stack: Stack) -> dict[str, Any]:
    """Return a dataset with two transactions on master and one more on a branch."""
    answers = [stack.upload(PATH, "id,price\n1,10\n2,20\n3,30\n"), stack.upload(PATH, "id,price\n1,11\n2,20\n4,40\n")]
    assert [one.status_code for one in answers] == [201, 201]
    dataset = stack.call("GET", f"/datasets?path={PATH}")["results"][0]
    stack.call(
        "POST", f"/datasets/{dataset['id']}/branches", json={"name": "feature/p", "parent": "master"}, expect=201
    )
    assert stack.upload(PATH, "id,price,tax\n1,11,1\n2,25,2\n4,40,3\n", branch="feature/p").status_code == 201
    found = stack.call("GET", f"/datasets/{dataset['id']}/transactions")["results"]
    return {"id": dataset["id"], "transactions": [one["id"] for one in reversed(found)]}


def wait(ask: Call, who: str, address: str) -> Any:
    """Ask until the comparison is done."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = ask(who, "GET", address, expect=200)
        if found["state"] != "running":
            return found
        time.sleep(0.2)
    raise AssertionError(found)


def test_two_transactions_by_key(ask: Call, prices: dict[str, Any]) -> None:
    first, second, _ = prices["transactions"]
    address = f"/datasets/{prices['id']}/compare?from={first}&to={second}&keys=id"

    found = wait(ask, "olek", address)

    assert found["state"] == "ready"
    assert found["mode"] == "identifier"
    counts = {name: found["summary"][name] for name in ("inserted", "deleted", "updated", "unchanged")}
    assert counts == {"inserted": 1, "deleted": 1, "updated": 1, "unchanged": 1}
    assert [(row["change"], row["key"]) for row in found["rows"]] == [
        ("updated", {"id": 1}),
        ("deleted", {"id": 3}),
        ("inserted", {"id": 4}),
    ]
    assert found["rows"][0]["changed"] == ["price"]
    assert found["schema"]["status"] == "unchanged"
    assert found["between"]["base"] == first
    assert [one["id"] for one in found["between"]["came"]] == [second]
    assert found["between"]["came"][0]["changed"] == {"is_exact": True, "inserted": 1, "deleted": 1, "updated": 1}
    only = ask("olek", "GET", f"{address}&change=deleted", expect=200)
    assert [row["change"] for row in only["rows"]] == ["deleted"]
    again = ask("mira", "GET", address, expect=200)
    assert again["summary"]["timings_s"] == found["summary"]["timings_s"], "it was computed again"


def test_branches_and_exports(ask: Call, prices: dict[str, Any], tmp_path: Any) -> None:
    where = f"/datasets/{prices['id']}/compare"
    query = "?from=master&to=feature/p&keys=id"

    found = wait(ask, "olek", f"{where}{query}")

    assert found["schema"]["status"] == "changed"
    assert [one["name"] for one in found["schema"]["added"]] == ["tax"]
    assert (found["summary"]["updated"], found["summary"]["unchanged"]) == (1, 2)
    assert (found["from"]["branch"], found["to"]["branch"]) == ("master", "feature/p")
    csv = ask("olek", "GET", f"{where}/rows.csv{query}", expect=200).decode().splitlines()
    assert csv[0].startswith("change,copies,before.id,after.id")
    assert len(csv) == 2
    file = tmp_path / "rows.parquet"
    file.write_bytes(ask("olek", "GET", f"{where}/rows.parquet{query}", expect=200))
    assert pq.read_table(file).to_pylist()[0]["after"] == {"id": 2, "price": 25, "tax": 2}
    statistics = ask("olek", "GET", f"{where}/statistics{query}&scope=changed", expect=200)
    assert statistics["scope"] == "changed"
    assert statistics["rows"] == {"before": 1, "after": 1}
    back = wait(ask, "olek", f"{where}?from=feature/p&to=master&keys=id")
    assert back["schema"]["status"] == "breaking"
    assert [one["branch"] for one in back["between"]["left"]] == ["feature/p"]


def test_without_a_key_changes_are_net(ask: Call, prices: dict[str, Any]) -> None:
    first, second, _ = prices["transactions"]

    found = wait(ask, "olek", f"/datasets/{prices['id']}/compare?from={first}&to={second}")

    assert (found["mode"], found["summary"]["inserted"], found["summary"]["deleted"]) == ("net", 2, 2)


def test_the_same_transaction_has_no_difference(ask: Call, prices: dict[str, Any]) -> None:
    found = wait(ask, "olek", f"/datasets/{prices['id']}/compare?from=master&to={prices['transactions'][1]}&keys=id")

    assert (found["state"], found["rows"], found["between"]["came"]) == ("ready", [], [])


def test_a_dataset_over_time(stack: Stack, ask: Call, prices: dict[str, Any]) -> None:
    first, second, third = prices["transactions"]
    where = f"/datasets/{prices['id']}"
    for ends in (f"from={first}&to={second}", "from=master&to=feature/p"):
        wait(ask, "olek", f"{where}/compare?{ends}&keys=id")

    trend = ask("olek", "GET", f"{where}/trend?branch=feature/p&column=price", expect=200)

    assert trend["lines"] == [
        {"branch": "master", "transactions": [first, second]},
        {"branch": "feature/p", "transactions": [first, second, third]},
    ]
    assert [(step["transaction"]["id"], step["rows"]) for step in trend["steps"]] == [
        (first, 3),
        (second, 3),
        (third, 3),
    ]
    measured = [step["measured"] for step in trend["steps"]]
    assert [(figures["min"], figures["max"], figures["nulls"]) for figures in measured] == [
        (10, 30, 0),
        (11, 40, 0),
        (11, 40, 0),
    ]
    assert (trend["columns"], trend["masked"]) == (["id", "price", "tax"], [])
    added = ask("olek", "GET", f"{where}/trend?branch=feature/p&column=tax", expect=200)["steps"]
    assert [step["measured"] and step["measured"]["distinct"] for step in added] == [None, None, 3]
    alone = ask("olek", "GET", f"{where}/trend", expect=200)
    assert [line["branch"] for line in alone["lines"]] == ["master"]
    assert [step["measured"] for step in alone["steps"]] == [None, None]
    assert ask("olek", "GET", f"{where}/trend?column=size", expect=422)["code"] == "no_column"
    ask("stranger", "GET", f"{where}/trend", expect=404)
    assert stack.upload("/shop/once", "id\n1\n").status_code == 201
    once = stack.call("GET", "/datasets?path=/shop/once")["results"][0]["id"]
    site = stack.url.removesuffix("/api/v1")
    with requests.Session() as browser:
        sign_in(browser, site, "olek")
        history = browser.get(f"{site}{where}/trend?branch=feature/p", timeout=30).text
        charts = browser.get(f"{site}{where}/trend?branch=feature/p&column=price", headers=HTMX, timeout=30).text
        unknown = browser.get(f"{site}{where}/trend?column=size", headers=HTMX, timeout=30).text
        one = browser.get(f"{site}/datasets/{once}/trend", headers=HTMX, timeout=30).text
    assert f"{where}/trend?tab=history" in history
    assert re.findall(r'<title id="trend-[a-z-]+-title">(.*?) after', charts) == [
        "Rows",
        "Share of null",
        "Distinct values",
        "Mean",
    ]
    assert charts.count("<polyline") == 8
    assert f"{third[:7]} on feature/p" in charts
    assert "3 of 3 transactions" in " ".join(charts.split())
    assert "has no column" in unknown
    assert "One transaction so far" in one


def test_refusals_name_the_thing(ask: Call, prices: dict[str, Any]) -> None:
    where = f"/datasets/{prices['id']}/compare"
    assert "to is missing" in ask("olek", "GET", f"{where}?from=master", expect=422)["detail"]
    assert (
        "no branch and no transaction nowhere"
        in ask("olek", "GET", f"{where}?from=master&to=nowhere", expect=404)["detail"]
    )
    assert ask("olek", "GET", f"{where}?from=master&to=feature/p&keys=,", expect=422)["code"] == "no_columns"
    ask("stranger", "GET", f"{where}?from=master&to=feature/p", expect=404)


def test_empty_branches_are_not_compared(stack: Stack, ask: Call) -> None:
    dataset = stack.call("POST", "/datasets", json={"path": "/shop/nothing"}, expect=201)

    found = ask("olek", "GET", f"/datasets/{dataset['id']}/compare?from=master&to=master", expect=200)

    assert found["state"] == "not_compared"
    assert "Nothing is committed on master" in found["summary"]["reason"]
    assert found["schema"] is None


def test_the_page_follows_and_shows_what_changed(stack: Stack, ask: Call, prices: dict[str, Any]) -> None:
    first, second, _ = prices["transactions"]
    wait(ask, "olek", f"/datasets/{prices['id']}/compare?from={first}&to={second}&keys=id")
    site = stack.url.removesuffix("/api/v1")
    with requests.Session() as browser:
        sign_in(browser, site, "olek")
        fragment = browser.get(
            f"{site}/datasets/{prices['id']}/compare",
            params={"tab": "compare", "from": first, "to": second, "keys": "id"},
            headers={"HX-Request": "true"},
            timeout=30,
        ).text
        history = browser.get(f"{site}/d{PATH}?tab=history", timeout=30).text
        unknown = browser.get(
            f"{site}/datasets/{prices['id']}/compare?from=nowhere&to=master", headers={"HX-Request": "true"}, timeout=30
        ).text
        plain = browser.get(f"{site}/datasets/{prices['id']}/compare?from=master&to=master", timeout=30)
    assert "Transactions between" in fragment
    assert "Same schema" in fragment
    assert "hx-trigger" not in fragment
    assert "key id" in fragment
    assert '<span class="mod"><span class="sr">changed </span>~1</span>' in history
    assert "no branch and no transaction nowhere" in unknown
    assert plain.url.startswith(f"{site}/d{PATH}?tab=compare")


def test_links_of_the_rows_lead_to_rows(stack: Stack, ask: Call, prices: dict[str, Any]) -> None:
    first, second, _ = prices["transactions"]
    ends = f"from={first}&to={second}"
    wait(ask, "olek", f"/datasets/{prices['id']}/compare?{ends}")
    site = stack.url.removesuffix("/api/v1")
    browser = requests.Session()
    sign_in(browser, site, "olek")
    in_place = {**HTMX, "HX-Target": "row-diff"}

    page = browser.get(f"{site}/d{PATH}?tab=compare&{ends}&limit=1", headers=in_place).text
    rows = page[page.index('id="row-diff"') :]
    links = set(re.findall(r'href="(/d/[^"]+)"', rows.partition("</section>")[0]))
    assert len(links) > 6
    for link in links:
        answer = browser.get(site + link.replace("&amp;", "&"), headers=in_place)
        assert 'id="row-diff"' in answer.text, link
        assert answer.headers["HX-Push-Url"].startswith(f"/d{PATH}?"), link


def sign_in(browser: requests.Session, site: str, who: str) -> None:
    """Sign in through the form."""
    form = browser.get(f"{site}/login", timeout=10).text
    token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)[0]
    answer = browser.post(
        f"{site}/login",
        data={"username": who, "password": PASSWORD, "csrfmiddlewaretoken": token},
        headers={"Referer": f"{site}/login"},
        timeout=10,
    )
    assert answer.status_code == 200, answer.text


def test_rules_of_pipeline_toml_decide_and_are_named(stack: Stack, ask: Call) -> None:
    path = "/shop/measures"
    for text in (
        "id,a,b,kind\n1,100.0,5.0,x\n2,100.0,5.0,x\n3,1.0,1.0,y\n",
        "id,a,b,kind\n1,100.4,5.0,x\n2,100.0,5.4,x\n3,9.0,9.0,y\n",
    ):
        assert stack.upload(path, text).status_code == 201
    dataset = stack.call("GET", f"/datasets?path={path}")["results"][0]
    first, second = [one["id"] for one in stack.call("GET", f"/datasets/{dataset['id']}/transactions")["results"]][::-1]
    rules = (
        f'{PIPELINE}[datasets."{path}"]\nkey = ["id"]\nfilter = "kind = \'x\'"\n'
        "tolerance = { a = { relative = 0.01 }, b = { absolute = 0.5, relative = 0.001 } }\n"
    )
    strict = f'{PIPELINE}[datasets."{path}"]\nkey = ["id"]\ntolerance = {{ a = {{ relative = 0.001 }}, b = 0.1 }}\n'
    where = f"/datasets/{dataset['id']}/compare?from={first}&to={second}"

    assert stack.commit({"pipeline.toml": rules})["published"]["status"] == "published"
    lenient = wait(ask, "olek", where)
    assert stack.commit({"pipeline.toml": strict})["published"]["status"] == "published"
    exact = wait(ask, "olek", where)

    counts = [(one["summary"]["updated"], one["summary"]["unchanged"]) for one in (lenient, exact)]
    assert counts == [(0, 2), (3, 0)]
    assert lenient["rules"]["row_filter"] == "kind = 'x'"
    assert lenient["rules"]["tolerance"]["b"] == {"absolute": 0.5, "relative": 0.001}
    bad = stack.commit({"pipeline.toml": f'{PIPELINE}[datasets."{path}"]\nfilter = "kind ="\n'})
    assert bad["published"]["status"] == "failed"
    assert bad["published"]["errors"][0]["file"] == "pipeline.toml"
    stack.commit({"pipeline.toml": PIPELINE})


def test_a_comparison_can_be_cancelled_by_writers_only(stack: Stack, ask: Call, prices: dict[str, Any]) -> None:
    first, _, third = prices["transactions"]
    query = f"from={first}&to={third}&keys=price"

    ask("olek", "POST", f"/datasets/{prices['id']}/compare/cancel?{query}", expect=403)
    answer = ask("ines", "POST", f"/datasets/{prices['id']}/compare/cancel?{query}", expect=202)

    assert (answer["state"], answer["summary"]["reason"]) == ("failed", "ines cancelled the comparison.")
    ask("olek", "POST", f"/datasets/{prices['id']}/compare?{query}", expect=202)
    assert wait(ask, "olek", f"/datasets/{prices['id']}/compare?{query}")["state"] == "ready"


def test_duplicate_keys_are_told_on_both_sides(stack: Stack, ask: Call) -> None:
    path = "/shop/doubles"
    for text in ("id,v\n1,a\n1,b\n2,c\n", "id,v\n1,a\n1,x\n2,c\n2,d\n"):
        assert stack.upload(path, text).status_code == 201
    dataset = stack.call("GET", f"/datasets?path={path}")["results"][0]
    first, second = [one["id"] for one in stack.call("GET", f"/datasets/{dataset['id']}/transactions")["results"]][::-1]
    found = wait(ask, "olek", f"/datasets/{dataset['id']}/compare?from={first}&to={second}&keys=id")
    trouble = found["summary"]["key_trouble"]
    assert (found["mode"], trouble["kind"], trouble["before"]["keys"], trouble["after"]["keys"]) == (
        "net", "duplicates", 1, 2,
    )  # fmt: skip
    site = stack.url.removesuffix("/api/v1")
    with requests.Session() as browser:
        sign_in(browser, site, "olek")
        answer = browser.get(
            f"{site}/datasets/{dataset['id']}/compare?from={first}&to={second}&keys=id",
            headers={"HX-Request": "true"},
            timeout=30,
        )
    page = read_page(answer)
    assert "Before: 1 key with 2 rows, for example<code>id = 1</code>(2 rows)" in page
    assert "After: 2 keys with 4 rows" in page
    assert "Compared by the embedded engine" in page
