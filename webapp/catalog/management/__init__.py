"""What `manage.py` can do for the catalog.

Modules:
    commands: one module for each command.
"""
