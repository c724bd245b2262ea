"""Kafka's own benchmark: its arguments and its output."""

import subprocess
import sys

import pytest

from bench.harness import BenchError
from bench.purgatory.kafka import (
    arguments,
    old_command,
    parse,
    run_kafka,
)
from bench.purgatory.workload import LOADS

SAID = """\
# latency samples: pct75 = 60, pct50 = 20
# enqueue rate (1000000 requests):
# <elapsed time ms>\t<target rate>\t<actual rate>\t<process cpu time ms>\t<gc>
8384\t102639.9\t102638.9\t3734\t0\t8\t0\t37
"""


def test_it_is_told_the_sources_workload():
    """Timeout 200 ms, three keys of a hundred, the load's own median and third quartile."""
    told = arguments(LOADS[1], 105_000, 1_000_000)
    given = dict(zip(told[::2], told[1::2], strict=True))
    assert given["--timeout"] == "200"
    assert (given["--pct50"], given["--pct75"]) == ("200", "400")
    assert (given["--keys"], given["--key-space-size"]) == ("3", "100")
    assert (given["--num"], given["--rate"]) == ("1000000", "105000")


def test_its_line_of_figures_is_understood():
    """CPU is the process's, by requests and by the time it took; lateness it does not tell."""
    found = parse(SAID, 1_000_000)
    assert (found["target"], found["actual"]) == (102639.9, 102638.9)
    assert found["cpu_us"] == pytest.approx(3.734)
    assert found["cores"] == pytest.approx(3734 / 8384)
    assert "late_p99_us" not in found
    assert not found["left"]


def test_anything_else_is_an_error():
    """Nothing is made up."""
    for said in ("", "# only a comment\n", "Exception in thread\n", "1\t2\n"):
        with pytest.raises(BenchError, match="no line of figures"):
            parse(said, 1000)


def test_its_memory_is_taken_and_its_failure_told():
    """A stand-in that prints such a line, and one that fails."""
    line = "1000\\t2.0\\t2.0\\t500\\t0\\t0"
    found = run_kafka([sys.executable, "-c", f"print('{line}')"], LOADS[0], 1, 10)
    assert found["cpu_us"] == 50_000
    assert found["resident_bytes"] > 1e6
    with pytest.raises(BenchError, match="exit code 3"):
        run_kafka([sys.executable, "-c", "raise SystemExit(3)"], LOADS[0], 1, 10)


def test_the_old_design_plays_to_the_end(tmp_path):
    """It is compiled where there is a compiler, and prints the same figures; some requests expire, and none is lost."""
    try:
        command = old_command(tmp_path)
    except BenchError as error:
        pytest.skip(f"the old design cannot run: {error}")
    found = run_kafka(command, LOADS[1], 1000, 500, tmp_path / "gc.log")
    assert found["requests"] == 500
    assert found["target"] > 0
    assert found["actual"] > 0
    assert found["gc_ms"] >= 0
    said = subprocess.run(
        [*command, *arguments(LOADS[1], 1000, 500)], capture_output=True, text=True, check=True
    ).stdout
    assert "left" not in said
