"""Orders with their size, kept up to date by what changed."""

import pyarrow as pa
import pyarrow.compute as pc
from transforms.api import incremental, transform
from transforms.tables import IcebergInput, IcebergOutput, TableInput, TableOutput

KEY = ["id"]
LARGE = 100  # from here on an order counts as large


@incremental()
@transform.using(orders=TableInput("/FOLDER/orders"), current=TableOutput("/FOLDER/current"))
def compute(orders: IcebergInput, current: IcebergOutput) -> None:
    """Apply what changed since the last build: new and changed orders are written, removed ones are deleted."""
    changes = orders.changelog_arrow(KEY)
    is_large = pc.greater_equal(pc.cast(changes["amount"], pa.float64()), LARGE)
    current.apply_changelog(changes.append_column("is_large", is_large), KEY)
