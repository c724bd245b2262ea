"""The page of Kafka's names: each of ours exists."""

import re
from pathlib import Path

from policies.quota.config import QuotaConfig, QuotaLine
from proxy.config.sources import variables
from proxy.telemetry.metrics.names import ALL

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "use" / "kafka-names.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| `")
]
CODE = re.compile(r"`([\w.<>-]+)`")
FIELDS = {"throttle_time_ms", "min_bytes", "max_wait_ms", "acks", "quota", "quotas"}
"""Fields of the protocol, the policy and its list: no settings."""


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
