"""Weather at the three airports, and what it does to departures."""

import polars as pl
import pyarrow.compute as pc
from transforms import expectations as E
from transforms.api import Check, transform
from transforms.tables import IcebergInput, IcebergOutput, TableInput, TableOutput

METRES_PER_MILE = 1609.344


@transform.using(
    raw=TableInput("/nyc/raw/weather"),
    weather=TableOutput(
        "/nyc/clean/weather",
        checks=[
            Check(E.primary_key("origin", "time_hour"), "one row an hour and airport"),
            Check(E.in_range("visibility", 0, 10), "visibility between 0 and 10 miles", on_error="WARN"),
        ],
    ),
)
def clean_weather(raw: IcebergInput, weather: IcebergOutput) -> None:
    """Hourly weather in metric units."""
    hours = raw.arrow(columns=["origin", "time_hour", "temp", "wind_speed", "precip", "pressure", "visib"])
    celsius = pc.round(pc.divide(pc.multiply(pc.subtract(hours["temp"], 32.0), 5.0), 9.0), 2)
    metres_a_second = pc.round(pc.divide(pc.multiply(hours["wind_speed"], METRES_PER_MILE), 3600.0), 2)
    weather.write_table(
        hours.select(["origin", "time_hour"])
        .append_column("temperature", celsius)
        .append_column("wind", metres_a_second)
        .append_column("rain", pc.round(pc.multiply(hours["precip"], 25.4), 2))
        .append_column("pressure", hours["pressure"])
        .append_column("visibility", hours["visib"])
    )


@transform.using(
    flights=TableInput("/nyc/clean/flights"),
    weather=TableInput("/nyc/clean/weather"),
    delays=TableOutput(
        "/nyc/weather/delays",
        checks=Check(E.primary_key("origin", "visibility"), "one row an airport and visibility"),
    ),
)
def delays_by_visibility(flights: IcebergInput, weather: IcebergInput, delays: IcebergOutput) -> None:
    """How late flights leave when one cannot see far."""
    left = flights.polars(columns=["origin", "time_hour", "dep_delay"])
    hours = weather.polars(columns=["origin", "time_hour", "visibility"])
    joined = left.join(hours, on=["origin", "time_hour"], how="inner")
    print(f"weather is known for {joined.height:,} of {left.height:,} flights")
    delays.write_polars(
        joined.group_by("origin", "visibility")
        .agg(
            flights=pl.len(),
            mean_delay=pl.col("dep_delay").mean(),
            over_an_hour=(pl.col("dep_delay") > 60).sum().cast(pl.Int64),
        )
        .sort("origin", "visibility")
    )
