"""Kafka's own benchmark: its arguments and its output."""

import subprocess
import sys

import pytest

from bench.harness import BenchError
from bench.purgatory.figures import Run
from bench.purgatory.kafka import (
    LOCK,
    VERSION,
    arguments,
    old_command,
    parse,
    pauses_ms,
    run_kafka,
)
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
    assert not found["left"]


def test_operations_that_did_not_end_are_counted():
    """From the line of the old design; its rate then does not count as held."""
    found = parse("# 346 operations are left\n13112\t24598\t24598\t5730\n", 75_000)
    assert found["left"] == 346
    run = Run("old", "high", 25_000, resident_bytes=0, **found)
    assert run.actual == run.target
    assert not run.held


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


def test_the_pauses_of_the_collector_are_summed():
    """From Java's own log; lines about concurrent work are no pauses."""
    log = """\
[0.004s][info][gc] Using G1
[3.765s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 26M->17M(200M) 16.900ms
[3.9s][info][gc] GC(1) Concurrent Mark Cycle 12.000ms
[4.0s][info][gc] GC(1) Pause Remark 34M->34M(200M) 1.100ms
"""
    assert pauses_ms(log) == pytest.approx(18.0)


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
