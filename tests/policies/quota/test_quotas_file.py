"""The setting `quotas_file`: its limits hold below the configuration's, and a file that cannot be used is refused."""

import pytest

from policies.api import PolicyConfigError
from policies.quota.config import QuotaLine
from policies.quota.policy import Quota
from policies.quota.quota_file import MAX_PROBLEMS
from policies.testing import BenchHost
from policies.validation import SettingsError

QUOTAS = b"""
version: 1
source: {tables: here}
quotas:
- {user: alice, request_rate: 100, consumer_byte_rate: 7, evidence: {request_rate: {p99: 3}}}
- {user: bob, request_rate: 0.5}
"""


def test_limits_of_the_quotas_file_hold_below_those_of_the_configuration() -> None:
    """Limit by limit; the file's names and its evidence change nothing."""
    host = BenchHost(files={"q": QUOTAS})
    lines = (QuotaLine(user="alice", request_rate=9),)
    quotas = Quota(Quota.Config(quotas=lines, quotas_file="q"), host).quotas
    assert [(each.entity.user, *each[1:]) for each in quotas] == [
        ("alice", "request_rate", 9.0, "file"),
        ("alice", "consumer_byte_rate", 7.0, "quotas_file"),
        ("bob", "request_rate", 0.5, "quotas_file"),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "quotas_file: 'q' cannot be read: No such file or directory"),
        (b"version: 2", "quotas_file: version (q:1): found 2, expected 1, the latest"),
        (
            b"version: 1\nquotas: [{user: a, rate: 1}]",
            "quotas_file: quotas[0].rate (q:2): found an",
        ),
    ],
)
def test_a_quotas_file_that_cannot_be_used_is_refused(content: bytes | None, words: str) -> None:
    """The message names the setting, the place in the file and what is expected."""
    host = BenchHost(files={} if content is None else {"q": content})
    with pytest.raises((PolicyConfigError, SettingsError)) as caught:
        Quota(Quota.Config(quotas_file="q"), host)
    assert str(caught.value).startswith(words)


def test_of_a_quotas_file_with_many_mistakes_some_are_reported() -> None:
    """Thousands of messages would hide the others."""
    host = BenchHost(files={"q": b"version: 1\nquotas: [" + b"{user: a}, " * 500 + b"]"})
    with pytest.raises(SettingsError) as caught:
        Quota(Quota.Config(quotas_file="q"), host)
    assert len(caught.value.problems) == MAX_PROBLEMS
