"""The options of `stream` are checked before Spark starts."""

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.cli.stream import Interval


def test_an_interval_is_written_as_spark_writes_it() -> None:
    """Milliseconds, seconds and minutes."""
    texts = [Interval().convert(text, None, None) for text in ("500ms", "10s", "2m")]
    assert texts == ["500 milliseconds", "10 seconds", "2 minutes"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["log", "out"], "Missing option '--checkpoint'"),
        (["log", "out", "--checkpoint", "c", "--interval", "0s"], "found '0s', expected a time"),
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
