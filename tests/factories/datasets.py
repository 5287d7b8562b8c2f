"""Datasets with a history, written through the real catalog as clients write it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response
from requests.adapters import BaseAdapter

from tests.factories.catalog import Catalog
from webapp.accounts import services as accounts
from webapp.accounts.models import User
from webapp.accounts.queries import principal_for_user
from webapp.core.principals import Principal
from webapp.datasets import services

if TYPE_CHECKING:
    from requests import Session

    from webapp.datasets.models import Dataset, Transaction

_numbers = count(1)


def a_user(name: str = "", *, is_admin: bool = True) -> User:
    """Make a user; an admin unless said otherwise."""
    user = User.objects.create_user(username=name or f"user{next(_numbers)}")
    user.is_superuser = is_admin
    user.save()
    return user


def who(user: User) -> Principal:
    """Return who a user is."""
    return principal_for_user(user)


ADMIN = Principal(0, "somebody", is_admin=True)
"""Somebody from whom nothing is hidden."""


def a_client(user: User, branch: str | None = None) -> Catalog:
    """Return a client of the catalog with a token of the user."""
    return Catalog(accounts.create_token(user=user, name="test")[1], branch)


def a_dataset(path: str = "", *, by: User | None = None) -> Dataset:
    """Make an empty dataset."""
    return services.get_or_create_dataset(path=path or f"/shop/orders{next(_numbers)}", by=who(by or a_user()))


def write(client: Catalog, dataset: Dataset, *, rows: int = 1, total: int = 1, operation: str = "append") -> None:
    """Commit a snapshot as a client does; no data files, only what the catalog keeps."""
    summary = {
        "operation": operation,
        "added-records": str(rows),
        "total-records": str(total),
        "total-data-files": "1",
        "total-files-size": str(100 * total),
    }
    answer = client.append(dataset.table, summary=summary)
    if answer.status != 200:  # noqa: PLR2004
        raise AssertionError(answer.body)


def try_write(client: Catalog, dataset: Dataset) -> int:
    """Commit a snapshot and return the status."""
    view = client.load(dataset.table)
    if view.status != 200:  # noqa: PLR2004
        return view.status
    return client.append(dataset.table).status


def a_transaction(
    dataset: Dataset, user: User, *, branch: str = "master", chain: tuple[str, ...] = (), **values: Any
) -> Transaction:
    """Open a transaction."""
    values.setdefault("type", "APPEND")
    return services.open_transaction(dataset=dataset, branch=branch, chain=chain, by=who(user), **values)


def fill(transaction: Transaction, user: User, *, rows: int = 1, total: int = 1) -> None:
    """Write into an open transaction through its staging branch."""
    write(a_client(user, transaction.staging_branch), transaction.dataset, rows=rows, total=total)


def commit(transaction: Transaction, user: User) -> Transaction:
    """Commit a transaction."""
    return services.commit_transactions(
        transactions=[transaction],
        branch=transaction.branch_name,
        staging=transaction.staging_branch,
        by=who(user),
    )[0]


class InProcess(BaseAdapter):
    """Answers PyIceberg's requests by the catalog's handlers, in the thread and database connection of the test.

    A live server's threads would share that connection, and outlive the test with it.
    """

    def send(self, request: PreparedRequest, **_kwargs: Any) -> Response:
        """Hand the request over as the server's adapters do: raw path, query, headers, body."""
        from webapp.catalog.api.handlers import handle
        from webapp.catalog.api.http import CatalogRequest

        parts = urlsplit(str(request.url))
        sent = [(name.lower(), value) for name, value in request.headers.items()]
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        got = handle(CatalogRequest(str(request.method), parts.path, parts.query, sent, body))
        response = Response()
        response.status_code = got.status
        response._content = got.body or b""  # noqa: SLF001 - as requests' own stubs do
        response.headers.update(dict(got.headers))
        response.url, response.request = str(request.url), request
        return response

    def close(self) -> None:
        """Nothing is open."""


class InProcessCatalog(RestCatalog):
    """PyIceberg's own client of REST catalogs, without a server."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        session.mount("http://catalog", InProcess())
        return session


def a_pyiceberg(user: User, branch: str = "") -> RestCatalog:
    """Return PyIceberg's client with a token of the user."""
    secret = accounts.create_token(user=user, name="test")[1]
    header = {"header.X-PLTR-Branch": branch} if branch else {}
    return InProcessCatalog("t", uri="http://catalog", token=secret, **header)
