"""Texts that are kept encrypted under the installation's secret key, where the database alone must not tell them.

Encrypted by a stream of HMAC-SHA256 over a random nonce, then authenticated by HMAC-SHA256: the standard library has no
cipher, and what is kept here is short.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from django.conf import settings

from webapp.core.errors import Conflict

MARK = "sealed1:"
_NONCE, _TAG = 16, 32


def seal(text: str, *, purpose: str) -> str:
    """Encrypt a text; the purpose keeps what is sealed for one thing from being opened as another. Empty stays empty."""
    if not text:
        return ""
    nonce = secrets.token_bytes(_NONCE)
    hidden = _mix(text.encode(), nonce, purpose)
    return MARK + base64.b64encode(nonce + hidden + _tag(nonce + hidden, purpose)).decode()


def unseal(sealed: str, *, purpose: str) -> str:
    """Decrypt what `seal` returned.

    Raises:
        Conflict: it was sealed under another secret key, or changed since.

    """
    if not sealed:
        return ""
    data = base64.b64decode(sealed.removeprefix(MARK))
    content, tag = data[:-_TAG], data[-_TAG:]
    if not hmac.compare_digest(tag, _tag(content, purpose)):
        message = f"The {purpose} was encrypted under another TRIBUTARY_SECRET_KEY: set it again, or use that key."
        raise Conflict(message, code="other_secret_key")
    return _mix(content[_NONCE:], content[:_NONCE], purpose).decode()


def _mix(text: bytes, nonce: bytes, purpose: str) -> bytes:
    key = _key("encrypt", purpose)
    blocks = range((len(text) + 31) // 32)
    stream = b"".join(hmac.digest(key, nonce + block.to_bytes(4, "big"), "sha256") for block in blocks)
    return bytes(plain ^ noise for plain, noise in zip(text, stream, strict=False))


def _tag(content: bytes, purpose: str) -> bytes:
    return hmac.digest(_key("authenticate", purpose), content, "sha256")


def _key(use: str, purpose: str) -> bytes:
    return hashlib.sha256(f"{use}\0{purpose}\0{settings.SECRET_KEY}".encode()).digest()
