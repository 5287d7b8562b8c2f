"""What `from transforms.api import ...` gives."""

from jobs.transforms.declare import Check, Transform, configure, incremental, transform
from jobs.transforms.errors import CheckFailed, DeclarationError, TransformError

__all__ = [
    "Check",
    "CheckFailed",
    "DeclarationError",
    "Transform",
    "TransformError",
    "configure",
    "incremental",
    "transform",
]
