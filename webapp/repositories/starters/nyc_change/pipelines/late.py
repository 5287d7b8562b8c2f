"""The latest departures, kept up by what changed in the flights. Runs on Spark."""

from pyspark.sql import functions as F
from transforms import expectations as E
from transforms.api import Check, incremental, transform
from transforms.tables import TableInput, TableOutput

KEY = ["carrier", "flight", "time_hour"]
HOURS_LATE = 180  # minutes


@incremental()
@transform.spark.using(
    flights=TableInput("/nyc/clean/flights"),
    late=TableOutput(
        "/nyc/delays/hours_late",
        checks=[
            Check(E.primary_key(*KEY), "one row a flight"),
            Check(E.col("dep_delay").gte(HOURS_LATE), "every flight is three hours late"),
        ],
    ),
)
def hours_late(flights, late):
    """Flights that left three hours late or more: a build applies the changes since the last one."""
    changes = flights.changelog(KEY).where("_change_type <> 'UPDATE_BEFORE'")
    late.apply_changelog(changes_of_late(changes), KEY)


def changes_of_late(changes):
    """Take out again what is late no more, or was cancelled; what came and never was late does not matter."""
    is_late = F.coalesce(~F.col("cancelled") & (F.col("dep_delay") >= HOURS_LATE), F.lit(False))
    change = F.col("_change_type")
    return (
        changes.where(is_late | (change != "INSERT"))
        .withColumn("_change_type", F.when(is_late, change).otherwise("DELETE"))
        .withColumn("dep_delay", F.col("dep_delay").cast("double"))
        .select(*KEY, "day", "operator", "tailnum", "origin", "dest", "dep_delay", "_change_type", "_change_ordinal")
    )
