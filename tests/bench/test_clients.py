"""The bench with real clients: what the clients print, what is computed from it, and what is written."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.client_cases import CASES, choose
from bench.clients_report import Found, goals, section
from bench.figures import Sample, Samples
from bench.harness import BenchError
from bench.kafka_clients import Client
from bench.system_calls import Calls, parse
from bench.variants import COMPILED, DIRECT, HAPROXY, SLUICE, Variant

TOTAL = (
    "10000 records sent, 4807.692308 records/sec (4.58 MB/sec), 99.35 ms avg latency, "
    "195.00 ms max latency, 8 ms 50th, 156 ms 95th, 168 ms 99th, 179 ms 99.9th."
)
STEADY = TOTAL.replace("10000 records", "5000 steady state records").replace(
    "8 ms 50th", "3 ms 50th"
)
PERF = """\
# started on Fri Nov 27 16:20:00 2026

953,,syscalls:sys_enter_sendto,123,100.00,,
2,,syscalls:sys_exit_sendto,123,100.00,,
950,,syscalls:sys_enter_recvfrom,123,100.00,,
460,,syscalls:sys_enter_epoll_wait,123,100.00,,
4,,syscalls:sys_enter_epoll_ctl,123,100.00,,
"""


def client(folder: Path, said: str) -> Client:
    """Return a client that has said this and ended."""
    output = folder / "client"
    output.write_text(said)
    output.with_suffix(".err").write_text("")
    return Client(subprocess.Popen([sys.executable, "-c", ""]), output)


def test_cases_are_chosen_by_patterns() -> None:
    """A pattern without a case is a mistake of the caller, not an empty run."""
    assert choose("") == list(CASES)
    assert [case.name for case in choose("produce-1k-*p,rate-1k-4p")] == [
        *(f"produce-1k-{count}p" for count in (1, 4, 12, 50)),
        "rate-1k-4p",
    ]
    with pytest.raises(ValueError, match="unknown case nothing; known: produce-1k-1p"):
        choose("nothing")


def test_the_cases_have_what_hid_once(tmp_path: Path) -> None:
    """Topics of one partition at low rates showed nothing of the cost of many partitions and of back-pressure."""
    assert len({case.name for case in CASES}) == len(CASES)
    for kind in ("produce", "read"):
        fast = {case.partitions for case in CASES if case.kind == kind and not case.rate}
        assert fast == {1, 4, 12, 50}
    assert {case.kind for case in CASES if case.rate} == {"produce", "consume", "librdkafka"}
    assert any(case.transaction_ms for case in CASES)


def test_a_producer_is_read_after_its_warm_up(tmp_path: Path) -> None:
    """The line before is that of all records."""
    with client(tmp_path, f"{TOTAL}\n{STEADY}\n") as ended:
        assert ended.steady() == (4807.692308, 3_000, 168_000)
    with client(tmp_path, TOTAL) as ended, pytest.raises(BenchError, match="no summary: 10000"):
        ended.steady()


def test_a_consumer_has_consumed_when_a_whole_report_says_so(tmp_path: Path) -> None:
    """The last line may be cut anywhere."""
    empty = "2026-11-27 16:20:00:000, 0, 0.0000, 0.0000, 0, 0.0000, 500, 0, 0.0, 0.0"
    full = empty.replace("0, 0.0000, 500", "90, 180.0000, 500")
    for said, consumed in (
        ("", False),
        (empty, False),
        (full[:52], False),
        (f"{empty}\n{full}\n2026", True),
    ):
        with client(tmp_path, said) as ended:
            assert ended.has_consumed() is consumed, said


def test_system_calls_are_those_that_perf_has_counted() -> None:
    """One that was not counted is no 0."""
    calls = parse(PERF)
    assert calls == Calls(953, 2, 950, 460, 4)
    assert calls.per_1000_sends(calls.failed_sends) == pytest.approx(2.1, abs=0.01)
    assert parse(PERF.replace("4,,", "<not supported>,,")) is None
    assert parse(PERF.partition("460")[0]) is None


def found(*names: str) -> Found:
    """Return two rounds of two cases, the second round twice as slow."""
    cases = choose("produce-1k-4p,rate-consume-4p")
    cpu_us = {DIRECT: 0.0, HAPROXY: 1.0, COMPILED: 1.1, SLUICE: 2.0, "kroxylicious": 4.0}
    return Found(
        cases,
        [Variant(name, f"{name} 1.0", None) for name in names],
        Samples(
            Sample(case.name, name, nth, 9, 1 + nth, 9, cpu_us[name] * (1 + nth + place), 900, 2500)
            for place, case in enumerate(cases)
            for name in names
            for nth in range(2)
        ),
    )


def test_ratios_are_taken_inside_each_round() -> None:
    """A slow round moves none; the worst case stands for all of them."""
    lines = {goal.what: goal for goal in goals(found(DIRECT, HAPROXY, COMPILED, "kroxylicious"))}
    own = lines["CPU by HAProxy's, produce 1 KB at full speed, 4 partitions"]
    assert (own.figure, own.met) == ("1.10", True)
    (worst,) = (goal for what, goal in lines.items() if what.startswith("CPU by that of"))
    assert worst.figure == "0.28"
    (source,) = (goal for what, goal in lines.items() if what.startswith("the source"))
    assert source.met is None


def test_the_section_shows_latency_where_the_proxy_is_in_its_way() -> None:
    """A consumer's producer sends past the proxy."""
    every = found(DIRECT, HAPROXY, SLUICE)
    every.calls["produce-1k-4p", HAPROXY] = Calls(953, 2, 950, 460, 4)
    text = section(every, {"date": "today"})

    assert "| produce 1 KB at full speed, 4 partitions | 1.50 | 2.00 |" in text
    each = text.partition("### Each case")[2]
    fast, slow = (
        line.split(" | ", 2)[2] for line in each.splitlines() if line.partition("| sluice |")[1]
    )
    assert fast == "3.00 (2.00 to 4.00) | 2.00 | 7 (4 to 9) | 1.00 | 0.9 | 2.5 |"
    assert slow == "5.00 (4.00 to 6.00) | 2.00 | 7 (4 to 9) | 1.00 |  |  |"
    assert "| haproxy | 953 | 2 | 4 | 997 | 483 |" in text.partition("### System calls")[2]
