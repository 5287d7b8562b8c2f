"""Labels of pull requests: how they may be called, and their colours."""

from __future__ import annotations

PLAIN = "plain"
TONE_CHOICES = [(PLAIN, "Grey"), ("acc", "Blue"), ("ok", "Green"), ("warn", "Yellow"), ("bad", "Red")]
"""As the pills of pages have them, with what people call each."""
TONES = [tone for tone, _word in TONE_CHOICES]
MOST_NAME = 50


def explain_name(name: str) -> str:
    """Return why a label cannot be called so; empty where it can."""
    if not name.strip():
        return "A label needs a name."
    if len(name) > MOST_NAME:
        return f"The name of a label has at most {MOST_NAME} characters."
    return (
        "" if name.isprintable() and "/" not in name else "The name of a label has no slash and no control character."
    )
