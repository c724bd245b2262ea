"""`sluice-pipeline stream`: rollups by the minute and alerts, while the rows arrive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TextIO

import click

from pipeline.cli.options import spark_options, spark_session
from pipeline.cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC: Final = "kafka:"


class Interval(click.ParamType[str]):
    """A time such as 500ms, 10s or 2m; its value is in Spark's words."""

    name = "interval"
    _UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes"}

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the time in Spark's words, such as `10 seconds`."""
        number = value.rstrip("ms")
        unit = self._UNITS.get(value.removeprefix(number))
        if not number.isdecimal() or int(number) < 1 or unit is None:
            self.fail(f"found {value!r}, expected a time such as 500ms, 10s or 2m", param, ctx)
        return f"{number} {unit}"


@click.command()
@click.argument("source")
@click.argument("output")
@click.option("--checkpoint", required=True, metavar="URI", help="Where the progress is kept.")
@click.option("--once", is_flag=True, help="Read all that is there, then end.")
@click.option(
    "--interval",
    type=Interval(),
    default="10s",
    show_default=True,
    help="The time between two batches: 500ms, 10s, 2m.",
)
@click.option(
    "--watermark",
    type=Interval(),
    default="2m",
    show_default=True,
    help="How late a row may come; rollups wait as long.",
)
@click.option(
    "--alert-window",
    type=click.IntRange(10, 3600),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="An alert is raised when more than 80 % of it were throttled.",
)
@click.option("--kafka", metavar="HOST:PORT", help="Sluice or the brokers; for topics.")
@click.option(
    "--kafka-config",
    type=click.File(encoding="utf-8"),
    help="Properties of Kafka's clients (security.protocol, sasl.jaas.config, ...).",
)
@click.option("--alerts-topic", metavar="TOPIC", help="Write the alerts to this topic, too.")
@click.option(
    "--max-files",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Files in a batch at most.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(1),
    default=500_000,
    show_default=True,
    help="Rows of a topic in a batch at most.",
)
@spark_options
def stream(
    source: str,
    output: str,
    *,
    checkpoint: str,
    once: bool,
    interval: str,
    watermark: str,
    alert_window: int,
    kafka: str | None,
    kafka_config: TextIO | None,
    alerts_topic: str | None,
    max_files: int,
    max_rows: int,
    master: str | None,
    conf: Mapping[str, str],
) -> None:
    """Write rollups by the minute, alerts and a quarantine to OUTPUT while rows arrive.

    SOURCE is the folder of a usage log, or kafka:TOPIC for the topic of its rows. After a crash start the same command
    again: it continues where it was. One process works on a checkpoint at a time.
    """
    topic = source.removeprefix(TOPIC) if source.startswith(TOPIC) else None
    over_kafka = topic is not None or alerts_topic is not None
    if over_kafka and kafka is None:
        raise click.UsageError("A topic needs --kafka HOST:PORT.")
    if topic == "":
        raise click.UsageError(f"SOURCE: found {source!r}, expected {TOPIC}TOPIC")

    from pipeline.jars import KAFKA, locked_jars  # noqa: PLC0415 - Spark, which --help need not wait for
    from pipeline.session import is_submitted  # noqa: PLC0415 - as above
    from pipeline.stream import queries, sources  # noqa: PLC0415 - as above

    jars = locked_jars(KAFKA) if over_kafka and not is_submitted() else ()
    with spark_session("stream", master=master, conf=conf, jars=jars) as spark:
        properties = sources.client_properties(
            spark, kafka, kafka_config.read() if kafka_config else ""
        )
        if topic is not None:
            lines = sources.read_topic(spark, topic, properties, max_rows)
        else:
            lines = sources.read_files(spark, source, queries.FAMILY, max_files)
        alerts = None if alerts_topic is None else queries.AlertsTopic(alerts_topic, properties)
        running = queries.Stream(
            spark, lines, output.rstrip("/"), checkpoint.rstrip("/"),
            watermark=watermark, interval=None if once else interval, topic=alerts,
            alert_window=alert_window,
        )  # fmt: skip
        running.run(partial(tell, err=True))
