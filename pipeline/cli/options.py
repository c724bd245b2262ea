"""The options that every job has: the cluster and Spark's settings."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import click

from pipeline.cli.printing import keep_raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

_P = ParamSpec("_P")
_R = TypeVar("_R")


def spark_options(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """Give a command the options --master and --conf, as `master` and `conf`, and --raw, which `printing` knows."""
    conf = click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_settings,
        help="A setting of Spark; may be repeated.",
    )
    master = click.option(
        "--master",
        help="The cluster: local[*] (default), spark://HOST:PORT, k8s://... Under spark-submit: its own.",
    )
    raw = click.option(
        "--raw",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=keep_raw,
        help="Print names as clients chose them: no escapes, no apostrophes before formulas.",
    )
    return master(conf(raw(command)))


def with_spark(
    job: Callable[Concatenate[SparkSession, _P], _R],
) -> Callable[_P, _R]:
    """Give a command the options of Spark, and its function a session as the first argument.

    A session that was open before, as in a notebook, is used as it is and stays open.
    """

    @spark_options
    @wraps(job)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        master = kwargs.pop("master", None)
        conf = kwargs.pop("conf", None)
        assert master is None or isinstance(master, str)  # noqa: S101 - click's own types
        assert isinstance(conf, dict)  # noqa: S101 - as above
        name = click.get_current_context().info_name or job.__name__
        with spark_session(name, master=master, conf=conf) as spark:
            return job(spark, *args, **kwargs)

    return run


@contextmanager
def spark_session(
    job: str, *, master: str | None, conf: Mapping[str, str], jars: Sequence[Path] = ()
) -> Iterator[SparkSession]:
    """Yield the session of a job. Raises JobFailedError, on one line, for each error of Spark."""
    from pipeline.hadoop import in_one_line  # noqa: PLC0415 - a second, which --help need not wait
    from pipeline.session import session  # noqa: PLC0415 - as above

    with (
        in_one_line(job),
        session(f"sluice-pipeline {job}", master=master, jars=jars, settings=conf) as spark,
    ):
        yield spark


def _parse_settings(
    _context: click.Context, _option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(f"found {text!r}, expected spark.NAME=VALUE")
        settings[name] = value
    return settings
