"""The page of Kafka's names: each of ours exists, and what the papers name is there."""

import re
from pathlib import Path

from policies.quota.config import QuotaConfig, QuotaLine
from proxy.config.sources import variables
from proxy.telemetry.metrics.names import ALL

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "kafka-names.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| `")
]
CODE = re.compile(r"`([\w.<>-]+)`")
FIELDS = {"throttle_time_ms", "min_bytes", "max_wait_ms", "acks", "quota", "quotas"}
"""Fields of the protocol, the policy and its list: no settings."""
NAMED = (
    *("queued.max.request.bytes", "queued.max.requests", "socket.request.max.bytes"),
    *("quota.window.size.seconds", "request_rate", "producer_byte_rate", "consumer_byte_rate"),
    *("producer.purgatory.purge.interval.requests", "fetch.purgatory.purge.interval.requests"),
    *("request_throttle_time_ms", "replica.fetch.wait.max.ms", "request.required.acks"),
    *("MemoryPoolAvgDepletedPercent", "MemoryPoolAvailable", "MemoryPoolUsed", "fetch.min.bytes"),
    *("PurgatorySize", "NumDelayedRequests", "request-rate", "throttle-time"),
)
"""The names that the papers use."""


def known() -> set[str]:
    """Return every setting and metric of Sluice, those of the policy quota included."""
    quota = {*QuotaConfig.__struct_fields__, *QuotaLine.__struct_fields__}
    settings = {each.path for each in variables().values()}
    return settings | quota | {each.name for each in ALL} | FIELDS


def test_our_names_exist_and_the_difference_is_told():
    """In the second column: a setting, a metric or a field, or none; the third says what differs."""
    names = known()
    for row in ROWS:
        ours = CODE.findall(row[1])
        assert ours or row[1] == "none"
        assert set(ours) <= names
        assert row[2], row[0]


def test_every_name_of_the_papers_has_a_row():
    """In the first column."""
    first = {name for row in ROWS for name in CODE.findall(row[0])}
    assert not set(NAMED) - first
