"""From the raw records to flights and weather that everything else builds on."""

import polars as pl
from transforms import expectations as E
from transforms.api import Check, transform
from transforms.tables import IcebergInput, IcebergOutput, TableInput, TableOutput

ORIGINS = ["EWR", "JFK", "LGA"]


@transform.using(
    raw=TableInput("/nyc/raw/flights"),
    airlines=TableInput("/nyc/raw/airlines"),
    flights=TableOutput(
        "/nyc/clean/flights",
        checks=[
            Check(E.primary_key("carrier", "flight", "time_hour"), "one row a flight"),
            Check(E.in_set("origin", ORIGINS), "every flight leaves New York"),
        ],
    ),
)
def clean_flights(raw: IcebergInput, airlines: IcebergInput, flights: IcebergOutput) -> None:
    """Flights that left, with the name of who flew them."""
    recorded = raw.polars()
    left = recorded.filter(pl.col("dep_time").is_not_null())
    print(f"{recorded.height - left.height:,} of {recorded.height:,} flights never left and are dropped")
    flights.write_polars(with_operator(left, airlines.polars()).select(COLUMNS))


COLUMNS = [
    pl.date("year", "month", "day").alias("day"),
    "carrier",
    "operator",
    "flight",
    "tailnum",
    "origin",
    "dest",
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


def with_operator(flights: pl.DataFrame, airlines: pl.DataFrame) -> pl.DataFrame:
    """Add the carrier's name."""
    return flights.join(airlines.rename({"name": "operator"}), on="carrier", how="left", maintain_order="left")
