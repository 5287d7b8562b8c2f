"""The aircraft: how much each of them flew. Runs on Spark."""

from pyspark.sql import functions as F
from transforms import expectations as E
from transforms.api import Check, transform
from transforms.tables import TableInput, TableOutput


@transform.spark.using(
    flights=TableInput("/nyc/clean/flights"),
    planes=TableInput("/nyc/raw/planes"),
    usage=TableOutput("/nyc/fleet/usage", checks=Check(E.primary_key("tailnum"), "one row an aircraft")),
)
def fleet_usage(ctx, flights, planes, usage):
    """Flights, hours and age of every aircraft that flew."""
    flown = (
        flights.dataframe(filter="tailnum IS NOT NULL AND dep_time IS NOT NULL")
        .groupBy("tailnum")
        .agg(
            F.count("*").alias("flights"),
            F.round(F.sum("air_time") / 60, 1).alias("hours"),
            F.countDistinct("dest").alias("destinations"),
            F.max("day").alias("last_seen"),
        )
    )
    built = planes.dataframe().select(
        "tailnum", "manufacturer", "model", "seats", (F.lit(2013) - F.col("year")).alias("age")
    )
    usage.write_dataframe(flown.join(built, on="tailnum", how="left").orderBy("tailnum"))
