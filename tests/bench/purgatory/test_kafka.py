"""Kafka's own benchmark: its arguments and its output."""

import sys

import pytest

from bench.harness import BenchError
from bench.purgatory.kafka import LOCK, VERSION, arguments, parse, run_kafka
from bench.purgatory.workload import LOADS
from pipeline.jars import read_lock

SAID = """\
# latency samples: pct75 = 60, pct50 = 20
# enqueue rate (1000000 requests):
# <elapsed time ms>\t<target rate>\t<actual rate>\t<process cpu time ms>\t<gc>
8384\t102639.9\t102638.9\t3734\t0\t8\t0\t37
"""


def test_the_lock_has_the_test_jar_of_the_version_that_is_named():
    """Beside the jar itself, and each file once."""
    jars = read_lock(LOCK.read_text())
    ours = [jar for jar in jars if jar.artifact == "kafka_2.13"]
    assert [(jar.version, jar.classifier) for jar in ours] == [(VERSION, ""), (VERSION, "test")]
    assert len({jar.file_name for jar in jars}) == len(jars)


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


@pytest.mark.parametrize("said", ["", "# only a comment\n", "Exception in thread\n", "1\t2\n"])
def test_anything_else_is_an_error(said):
    """Nothing is made up."""
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
