"""The job's door to the catalog: PyIceberg over REST with the job's token and branch header."""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from requests import Session

from jobs.engine.read.file_io import EXPIRES_AT, RenewedFileIO
from jobs.engine.read.retries import PatientAdapter

BRANCH_HEADER = "X-PLTR-Branch"
CATALOG = "tributary"


class JobCatalog(RestCatalog):  # type: ignore[misc]
    """The catalog, whose tables stay open for longer than the keys live that came with them.

    It may be away for a moment: no request is given up before a new web process has had the time to start.
    """

    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, PatientAdapter())
        return session

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: Any) -> Table:
        table = super()._response_to_table(identifier_tuple, table_response)
        if EXPIRES_AT in table.io.properties:
            place = table.metadata_location
            table.io = RenewedFileIO(table.io.properties, lambda: self.load_credentials(identifier_tuple, place))
        return table


def open_catalog(*, uri: str, token: str, branch: str) -> JobCatalog:
    """Open the catalog as one branch sees it."""
    return JobCatalog(
        CATALOG,
        **{
            "uri": uri,
            "token": token,
            # named only because the client warns without it; a job's token is never exchanged
            "oauth2-server-uri": f"{uri.rstrip('/')}/v1/oauth/tokens",
            f"header.{BRANCH_HEADER}": branch,
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        },
    )
