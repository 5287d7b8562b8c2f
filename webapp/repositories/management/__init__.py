"""What `manage.py` can do for repositories.

Modules:
    commands: one module for each command.
"""
