"""What `manage.py` can do for accounts.

Modules:
    commands: one module for each command.
"""
