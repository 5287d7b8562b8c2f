"""From the raw records to flights and weather that everything else builds on."""

import polars as pl
from transforms import expectations as E
from transforms.api import Check, transform
from transforms.tables import IcebergInput, IcebergOutput, TableInput, TableOutput

ORIGINS = ["EWR", "JFK", "LGA"]
MIDNIGHT = 2400  # how the records write it at the end of a day


@transform.using(
    raw=TableInput("/nyc/raw/flights"),
    airlines=TableInput("/nyc/raw/airlines"),
    flights=TableOutput(
        "/nyc/clean/flights",
        checks=[
            Check(E.primary_key("carrier", "flight", "time_hour"), "one row a flight"),
            Check(E.in_set("origin", ORIGINS), "every flight leaves New York"),
            Check(
                E.any(E.col("cancelled").equals(True), E.col("dep_time").non_null()),
                "what was not cancelled has a departure time",
            ),
        ],
    ),
)
def clean_flights(raw: IcebergInput, airlines: IcebergInput, flights: IcebergOutput) -> None:
    """All planned flights that ended somewhere or never left, with the name of who flew them."""
    recorded = raw.polars()
    returned = pl.col("dep_time").is_not_null() & pl.col("arr_time").is_null()
    kept = recorded.filter(~returned).with_columns(
        cancelled=pl.col("dep_time").is_null(),
        dep_delay=pl.col("dep_delay").cast(pl.Float64),
        dep_time=from_midnight("dep_time"),
        arr_time=from_midnight("arr_time"),
    )
    print(f"{kept['cancelled'].sum():,} flights were cancelled, {recorded.height - kept.height:,} came back and are dropped")
    flights.write_polars(with_operator(kept, airlines.polars()).select(COLUMNS))


COLUMNS = [
    pl.date("year", "month", "day").alias("day"),
    "carrier",
    "operator",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "cancelled",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "air_time",
    "distance",
    "time_hour",
]
# AirTran was Southwest's since 2011 and flew under its old code until 2014.
BOUGHT_BY = {"FL": "WN"}


def with_operator(flights: pl.DataFrame, airlines: pl.DataFrame) -> pl.DataFrame:
    """Add the name of the company that the carrier belonged to."""
    owners = flights.with_columns(owner=pl.col("carrier").replace(BOUGHT_BY))
    names = airlines.rename({"carrier": "owner", "name": "operator"})
    return owners.join(names, on="owner", how="left", maintain_order="left").drop("owner")


def from_midnight(column: str) -> pl.Expr:
    """Write midnight as the day's first minute, so that times sort and subtract."""
    return pl.when(pl.col(column) == MIDNIGHT).then(0).otherwise(pl.col(column)).alias(column)
