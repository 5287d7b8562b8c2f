"""The job's door to the catalog: PyIceberg over REST with the job's token and branch header."""

from __future__ import annotations

from pyiceberg.catalog.rest import RestCatalog

BRANCH_HEADER = "X-PLTR-Branch"
CATALOG = "tributary"


def open_catalog(*, uri: str, token: str, branch: str) -> RestCatalog:
    """Open the catalog as one branch sees it."""
    return RestCatalog(
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
