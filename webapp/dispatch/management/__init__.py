"""What `manage.py` can do for leased work.

Modules:
    commands: one module for each command.
"""
