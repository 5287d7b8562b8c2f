"""Tags of notifications.

Modules:
    notices: the watch button, and lines of mails.
"""
