"""Routes: where flights go, how fast and how late. Runs on Spark."""

from pyspark.sql import functions as F
from transforms import expectations as E
from transforms.api import Check, transform
from transforms.tables import TableInput, TableOutput


@transform.spark.using(
    flights=TableInput("/nyc/clean/flights"),
    airports=TableInput("/nyc/raw/airports"),
    summary=TableOutput(
        "/nyc/routes/summary",
        checks=[
            Check(E.primary_key("origin", "dest"), "one row a route"),
            Check(E.col("distance_km").gt(0), "every route has a length"),
        ],
    ),
)
def summarise_routes(flights, airports, summary):
    """Flights, speed and delay of every route."""
    routes = flights.dataframe().groupBy("origin", "dest").agg(
        F.count("*").alias("flights"),
        F.round(F.max("distance") * 1.609344, 1).alias("distance_km"),
        F.avg(F.col("distance") / (F.col("air_time") / 60)).alias("mean_speed_mph"),
        F.avg("arr_delay").alias("mean_delay"),
    )
    names = airports.dataframe().select(F.col("faa").alias("dest"), F.col("name").alias("dest_name"))
    summary.write_dataframe(routes.join(names, on="dest", how="left").orderBy("origin", "dest"))
