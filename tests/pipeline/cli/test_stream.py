"""The options of `stream` are checked before Spark starts."""

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.cli.stream import Interval


@pytest.mark.parametrize(
    ("text", "value"), [("500ms", "500 milliseconds"), ("10s", "10 seconds"), ("2m", "2 minutes")]
)
def test_an_interval_is_written_as_spark_writes_it(text: str, value: str) -> None:
    """Milliseconds, seconds and minutes."""
    assert Interval().convert(text, None, None) == value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["log", "out"], "Missing option '--checkpoint'"),
        (["log", "out", "--checkpoint", "c", "--interval", "10"], "found '10', expected a time"),
        (["log", "out", "--checkpoint", "c", "--interval", "0s"], "found '0s', expected a time"),
        (["log", "out", "--checkpoint", "c", "--watermark", "2h"], "found '2h', expected a time"),
        (["kafka:rows", "out", "--checkpoint", "c"], "A topic needs --kafka"),
        (["log", "out", "--checkpoint", "c", "--alerts-topic", "t"], "A topic needs --kafka"),
        (
            ["kafka:", "out", "--checkpoint", "c", "--kafka", "b:1"],
            "found 'kafka:', expected kafka:T",
        ),
    ],
)
def test_wrong_options_are_named(options: list[str], words: str) -> None:
    """Exit code 2, with what was found and what is expected."""
    told = CliRunner().invoke(main, ["stream", *options])

    assert told.exit_code == 2
    assert words in told.stderr
