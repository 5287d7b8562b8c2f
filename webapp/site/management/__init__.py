"""What `manage.py` can do for the whole product.

Modules:
    commands: one module for each command.
"""
