"""records: a batch is judged by its head, and a batch that breaks a rule is refused."""

import pytest

from policies.api import FORWARD, Need, Reject
from policies.records import RecordRules
from policies.testing import PolicyBench
from policies.validation import SettingsError
from tests.support.messages.record_batches import GZIP, batch
from wire.errors import ErrorCode

FIRST_MS = 1_700_000_000_000
"""The timestamp of the first record; each one is a millisecond later than the one before."""


def judged(config: dict[str, object], records: bytes, now_ms: int = FIRST_MS) -> object:
    """Return the error code of the refusal, or None."""
    bench = PolicyBench(RecordRules, config, now_ms)
    verdict = bench.ask(bench.request("Produce", topics=("orders",), records=records))
    assert isinstance(bench.policy, RecordRules)
    counted = sum(bench.policy._refused.series.values())
    if isinstance(verdict, Reject):
        assert verdict.message
        assert counted == 1
        return verdict.code
    assert (verdict, counted) == (FORWARD, 0)
    return None


SIZE = len(batch(10))


def changed(count: int, at: int, data: bytes) -> bytes:
    """Return a batch of so many records with these bytes in its head."""
    records = batch(count)
    return records[:at] + data + records[at + len(data) :]


@pytest.mark.parametrize(
    ("config", "records", "code"),
    [
        ({"max_batch_bytes": SIZE}, batch(10), None),
        ({"max_batch_bytes": SIZE - 1}, batch(10), ErrorCode.MESSAGE_TOO_LARGE),
        ({"max_batch_bytes": SIZE - 1}, batch(10, codec=GZIP), None),
        ({"max_records": 10}, batch(10), None),
        ({"max_records": 9}, batch(10, codec=GZIP), ErrorCode.POLICY_VIOLATION),
        ({"compression": ["zstd"]}, batch(10), None),
        ({"compression": ["zstd"]}, batch(10, codec=GZIP), ErrorCode.POLICY_VIOLATION),
        ({"compression": ["gzip"]}, batch(10, codec=GZIP), None),
        ({"compression": ["none"]}, batch(10, codec=GZIP), ErrorCode.POLICY_VIOLATION),
        ({"compression": ["gzip"]}, batch(100), ErrorCode.POLICY_VIOLATION),
        (
            {"compression": ["gzip"], "compression_min_bytes": SIZE},
            batch(10),
            ErrorCode.POLICY_VIOLATION,
        ),
        ({"max_records": 9}, batch(1) + batch(10), ErrorCode.POLICY_VIOLATION),
        ({"max_records": 9}, batch(1, magic=1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        ({"max_records": 9}, b"", None),
        # a codec that Kafka does not have, and no timestamps
        ({"compression": ["none"]}, changed(100, 22, b"\7"), ErrorCode.POLICY_VIOLATION),
        ({"max_age_ms": 1, "max_ahead_ms": 1}, changed(1, 27, b"\xff" * 16), None),
    ],
)
def test_a_batch_that_breaks_a_rule_is_refused(config, records, code) -> None:
    """The codec's small batches pass uncompressed, because clients send them so."""
    assert judged(config, records) == code


@pytest.mark.parametrize(
    ("config", "now_ms", "code"),
    [
        ({"max_age_ms": 100}, FIRST_MS + 100, None),
        ({"max_age_ms": 100}, FIRST_MS + 101, ErrorCode.INVALID_TIMESTAMP),
        ({"max_ahead_ms": 100}, FIRST_MS + 9 - 100, None),
        ({"max_ahead_ms": 100}, FIRST_MS + 9 - 101, ErrorCode.INVALID_TIMESTAMP),
        ({"max_ahead_ms": 0}, FIRST_MS + 9, None),
    ],
)
def test_timestamps_lie_within_their_bounds(config, now_ms, code) -> None:
    """The first record's for the past, the latest for the future."""
    assert judged(config, batch(10), now_ms) == code


def test_a_flood_of_batches_is_refused() -> None:
    """The reason is not counted as a rule's."""
    bench = PolicyBench(RecordRules, {"max_records": 9})
    verdict = bench.ask(bench.request("Produce", topics=("orders",), records=batch(1) * 1_001))
    assert verdict == Reject(ErrorCode.INVALID_RECORD)


def test_without_a_rule_nothing_is_read() -> None:
    """The size for compression alone is no rule."""
    for config in ({}, {"compression_min_bytes": 5}):
        assert PolicyBench(RecordRules, config).policy.apis == frozenset()
    assert PolicyBench(RecordRules, {"max_records": 5}).policy.needs is Need.BODY


@pytest.mark.parametrize(
    "config", [{"max_records": 0}, {"compression": ["brotli"]}, {"max_age_ms": -1}]
)
def test_settings_have_their_ranges(config: dict[str, object]) -> None:
    """A rule that refuses everything is a mistake."""
    with pytest.raises(SettingsError):
        PolicyBench(RecordRules, config)
