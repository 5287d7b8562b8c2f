"""Orders by country."""

import polars as pl
from transforms import expectations as E
from transforms.api import Check, transform
from transforms.tables import IcebergInput, IcebergOutput, TableInput, TableOutput


@transform.using(
    orders=TableInput("/FOLDER/orders"),
    by_country=TableOutput("/FOLDER/by_country", checks=Check(E.primary_key("country"), "one row a country")),
)
def compute(orders: IcebergInput, by_country: IcebergOutput) -> None:
    """Number and amount of the orders of every country."""
    summed = orders.polars().group_by("country").agg(orders=pl.len().cast(pl.Int64), amount=pl.col("amount").sum())
    by_country.write_polars(summed.sort("country"))
