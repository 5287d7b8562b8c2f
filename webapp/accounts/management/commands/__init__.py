"""Commands for accounts.

Modules:
    prepare_admin: the first user, with a password that the installation's owner can read.
"""
