"""Commands for accounts.

Modules:
    accept_audit_cut: entries that the audit log lacks after a restore, accepted by an administrator.
    prepare_admin: the first user, with a password that the installation's owner can read.
"""
