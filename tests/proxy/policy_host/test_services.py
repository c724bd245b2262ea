"""The services of a proxy for its policies: before the engine exists, and after."""

import sys
from pathlib import Path

import msgspec
import pytest

from policies.entry_host import EntryHost, NullServices
from policies.hook_runner import HookRunner
from policies.registry import PolicyEntry, build
from proxy.config.upstream import UpstreamSettings
from proxy.policy_host.services import PolicyServices
from tests.support.core.sessions import make_engine

EARLY = """
from policies.api import Policy

class Early(Policy):
    Config = dict
    rang = []

    def __init__(self, config, host):
        super().__init__(config, host)
        host.call_at(70, self.rang.append)
"""


def test_an_alarm_that_a_policy_sets_in_its_constructor_rings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Policies are built before the engine: the alarm is kept until there is one."""
    (tmp_path / "early_alarm.py").write_text(EARLY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "early_alarm", raising=False)
    services = PolicyServices()
    (entry,) = build([PolicyEntry(use="early_alarm:Early")], services)
    engine = make_engine([entry.policy])
    services.attach(engine)
    engine.advance(69)
    assert entry.policy.rang == []
    engine.advance(71)

    assert entry.policy.rang == [71]


def test_without_an_engine_nothing_happens() -> None:
    """No request is held, no client is throttled, no topic has a name."""
    services = PolicyServices()
    services.reconsider()
    services.review_throttles(lambda *_: 0)

    assert services.wake("key") == 0
    assert services.topic_name(b"i" * 16) is None


def test_topics_have_the_names_that_replies_gave_them() -> None:
    """As the core learnt them."""
    services, engine = PolicyServices(), make_engine()
    services.attach(engine)
    engine.rewrites.learn({b"i" * 16: "orders"})

    assert services.topic_name(b"i" * 16) == "orders"
    assert services.topic_name(b"j" * 16) is None


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        ({}, False),
        ({"tls": {}}, False),
        ({"tls": {"cert_file": "c", "key_file": "k"}}, True),
        ({"sasl": {"mechanism": "PLAIN", "username": "u", "password_file": "p"}}, True),
    ],
)
def test_policies_know_whether_the_brokers_judge_sluice(
    upstream: dict[str, object], *, expected: bool
) -> None:
    """By a login or a certificate of its own; before they are connected they take it for granted."""
    found = msgspec.convert({"bootstrap_servers": ["h:1"], **upstream}, UpstreamSettings)
    services = PolicyServices(has_credentials=found.has_credentials)
    assert services.speaks_as_itself() == expected
    host = EntryHost("mine", "enforce", NullServices(), {})
    assert host.speaks_as_itself()
    host.connect(services, HookRunner(NullServices()))  # type: ignore[arg-type]
    assert host.speaks_as_itself() == expected


def test_state_is_saved_and_read(tmp_path: Path) -> None:
    """A saved state is loaded, and the files of others are read up to a size."""
    services, path = PolicyServices(), str(tmp_path / "state")
    assert services.load(path) is None
    services.save(path, b"abc")

    assert services.load(path) == services.read(path, 3) == b"abc"
    with pytest.raises(OSError, match=r"large|bytes"):
        services.read(path, 2)
