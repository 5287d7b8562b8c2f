"""What notifications are about, without a database.

Modules:
    facts: what people are told, and why them.
    states: where a notification and its mail stand.
    mentions: whom a text names.
    mails: when a mail that was not taken is tried again.
"""
