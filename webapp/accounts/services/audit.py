"""The audit log: who did or tried what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from webapp.accounts.models import AuditEntry
from webapp.accounts.rules.principals import Principal
from webapp.core import clock
from webapp.core.databases import AUDIT_LOCK, take_lock


def record_audit(
    *,
    by: Principal | None,
    verb: str,
    object: str,
    outcome: str = "allowed",
    detail: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """Append to the audit log, chained to the entry before it."""
    actor = by.username if by else "system"
    with transaction.atomic():
        take_lock(AUDIT_LOCK)
        before = AuditEntry.objects.order_by("-id").values_list("chain", flat=True).first() or ""
        at = clock.now()
        content = json.dumps([before, at.isoformat(), actor, verb, object, outcome, detail or {}], default=str)
        return AuditEntry.objects.create(
            at=at,
            actor=actor,
            verb=verb,
            object=object[:400],
            outcome=outcome,
            detail=dict(detail or {}),
            chain=hashlib.sha256(content.encode()).hexdigest(),
        )
