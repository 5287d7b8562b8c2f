"""Whether TRIBUTARY_OIDC_ISSUER can be used."""

from __future__ import annotations

from webapp.accounts.rules.claims import is_protected


def check_issuer(issuer: str, *, client_id: str) -> None:
    """Refuse an issuer that anybody on the way could play, or one at which we are nobody.

    Raises:
        SystemExit: says what is wrong.

    """
    if not issuer:
        return
    if not is_protected(issuer):
        message = f"TRIBUTARY_OIDC_ISSUER is {issuer}, which is neither https://… nor an http:// address of loopback."
        raise SystemExit(message)
    if not client_id:
        message = (
            "TRIBUTARY_OIDC_ISSUER is set and TRIBUTARY_OIDC_CLIENT_ID is not: register Tributary at the provider."
        )
        raise SystemExit(message)
