"""The job's door to the catalog: PyIceberg over REST with the job's token and branch header."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

from pyiceberg.catalog.rest import DEFAULT_NAMESPACE_SEPARATOR, Endpoint, RestCatalog, TableResponse
from pyiceberg.table import Table
from requests import Session

from jobs.engine.read.file_io import EXPIRES_AT, RenewedFileIO, TableFileIO
from jobs.engine.read.retries import PatientAdapter

BRANCH_HEADER = "X-PLTR-Branch"
CATALOG = "tributary"


class JobCatalog(RestCatalog):  # type: ignore[misc]
    """The catalog, whose tables stay open for longer than the keys live that came with them.

    It may be away for a moment: no request is given up before a new web process has had the time to start.
    """

    def __init__(self, name: str, *, endpoints: Collection[str] = (), **properties: str) -> None:
        self._endpoints = endpoints
        super().__init__(name, **properties)

    def _fetch_config(self) -> None:
        """Ask what the catalog can do, unless that is known."""
        if not self._endpoints:
            super()._fetch_config()
            return
        # what the client would have kept of the answer
        self.__dict__.update(
            _supported_endpoints={Endpoint.from_string(endpoint) for endpoint in self._endpoints},
            _namespace_separator=unquote(DEFAULT_NAMESPACE_SEPARATOR),
        )

    def open_prepared(self, identifier: str, answer: bytes) -> Table:
        """Open a table from the catalog's answer, which somebody has asked for before."""
        return self._response_to_table(self.identifier_to_tuple(identifier), TableResponse.model_validate_json(answer))

    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, PatientAdapter())
        return session

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: Any) -> Table:
        table = super()._response_to_table(identifier_tuple, table_response)
        properties, folder = table.io.properties, table.metadata.location
        if EXPIRES_AT in properties:
            place = table.metadata_location
            table.io = RenewedFileIO(properties, folder, lambda: self.load_credentials(identifier_tuple, place))
        else:
            table.io = TableFileIO(properties, folder)
        return table


def open_catalog(*, uri: str, token: str, branch: str, endpoints: Collection[str] = ()) -> JobCatalog:
    """Open the catalog as one branch sees it; it is asked what it can do unless its `endpoints` are given."""
    return JobCatalog(
        CATALOG,
        endpoints=endpoints,
        **{
            "uri": uri,
            "token": token,
            # named only because the client warns without it; a job's token is never exchanged
            "oauth2-server-uri": f"{uri.rstrip('/')}/v1/oauth/tokens",
            f"header.{BRANCH_HEADER}": branch,
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        },
    )
