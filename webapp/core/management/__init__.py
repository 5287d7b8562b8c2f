"""What `manage.py` can do for the whole installation.

Modules:
    commands: one module for each command.
"""
