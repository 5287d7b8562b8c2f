"""Delays by day and by carrier."""

from datetime import datetime, timezone

import polars as pl
import pyarrow as pa
from transforms import expectations as E
from transforms.api import Check, transform
from transforms.tables import IcebergInput, IcebergOutput, TableInput, TableOutput

LATE = 15  # minutes; less does not count as late


@transform.using(
    flights=TableInput("/nyc/clean/flights"),
    daily=TableOutput(
        "/nyc/delays/daily",
        checks=[
            Check(E.primary_key("day", "carrier"), "one row a day and carrier"),
            Check(E.all(E.col("flights").gt(0), E.col("late").gte(0)), "no day without flights"),
        ],
    ),
)
def compute(flights: IcebergInput, daily: IcebergOutput) -> None:
    """Flights, late flights and the mean delay of every day and carrier."""
    daily.write_polars(per_day(flights.polars(columns=["day", "carrier", "dep_delay"])))


def per_day(flights: pl.DataFrame) -> pl.DataFrame:
    """Sum flights up by day and carrier."""
    return (
        flights.group_by("day", "carrier")
        .agg(
            flights=pl.len().cast(pl.Int64),
            late=(pl.col("dep_delay") >= LATE).sum().cast(pl.Int64),
            mean_delay=pl.col("dep_delay").mean(),
            worst_delay=pl.col("dep_delay").max(),
        )
        .with_columns(built_at=pl.lit(datetime.now(timezone.utc)))
        .sort("day", "carrier")
    )


@transform.using(
    flights=TableInput("/nyc/clean/flights"),
    airlines=TableInput("/nyc/raw/airlines"),
    by_carrier=TableOutput("/nyc/delays/by_carrier", checks=Check(E.primary_key("carrier"), "one row a carrier")),
)
def by_carrier(flights: IcebergInput, airlines: IcebergInput, by_carrier: IcebergOutput) -> None:
    """The same for every carrier over the whole year."""
    delays = flights.arrow(columns=["carrier", "dep_delay", "arr_delay"])
    summed = delays.group_by("carrier").aggregate(
        [("dep_delay", "count"), ("dep_delay", "mean"), ("arr_delay", "mean"), ("dep_delay", "max")]
    )
    named = summed.rename_columns(["carrier", "flights", "mean_delay", "mean_arrival_delay", "worst_delay"])
    by_carrier.write_table(named.join(airlines.arrow(), keys="carrier").sort_by("carrier").cast(SCHEMA))


SCHEMA = pa.schema(
    [
        ("carrier", pa.string()),
        ("flights", pa.int64()),
        ("mean_delay", pa.float64()),
        ("mean_arrival_delay", pa.float64()),
        ("worst_delay", pa.int64()),
        ("name", pa.string()),
    ]
)
