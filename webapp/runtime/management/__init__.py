"""What `manage.py` can do for running an installation.

Modules:
    commands: one module for each command.
"""
