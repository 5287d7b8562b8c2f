"""What `from transforms.tables import ...` gives."""

from jobs.transforms.context import TransformContext
from jobs.transforms.declare import TableInput, TableOutput
from jobs.transforms.inputs import IcebergInput
from jobs.transforms.outputs import IcebergOutput

__all__ = ["IcebergInput", "IcebergOutput", "TableInput", "TableOutput", "TransformContext"]
