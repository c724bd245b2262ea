"""The contract class: every policy that ships passes it, and a policy that breaks a rule fails that rule's test."""

import sys
import time
import tomllib
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from policies.access.policy import Access
from policies.admission import Admission
from policies.api import FORWARD, Need, Policy
from policies.audit import Audit
from policies.fetch_floor import FetchFloor
from policies.limits import Limits
from policies.maintenance import Maintenance
from policies.quota.policy import Quota
from policies.records import RecordRules
from policies.testing import PolicyContract
from tests.support.messages.every_case import for_each
from tests.support.plugins.reply_editor import ReplyEditor
from wire.apis import ApiKey

ROOT = Path(__file__).resolve().parents[3]


class TestAdmission(PolicyContract):
    """`admission` with a place for two requests."""

    policy = Admission
    config: ClassVar = {"max_in_flight_requests_per_node": 2}


class TestAudit(PolicyContract):
    """`audit` has no settings."""

    policy = Audit


class TestReplyEditor(PolicyContract):
    """A policy that replaces replies."""

    policy = ReplyEditor
    config: ClassVar = {"hidden": ["orders"]}


class TestFetchFloor(PolicyContract):
    """`fetch_floor` with a rule for all topics."""

    policy = FetchFloor
    config: ClassVar = {
        "consumers": [{"client_id": "bench", "min_bytes": 1024, "max_wait_ms": 200}]
    }


class TestLimits(PolicyContract):
    """`limits` with every setting."""

    policy = Limits
    config: ClassVar = {"forbidden_apis": ["DeleteTopics"], "request_max_bytes": 1024}


class TestMaintenance(PolicyContract):
    """`maintenance` with every setting."""

    policy = Maintenance
    config: ClassVar = {"pauses": [{"topic": "orders"}, {"user": "bob"}], "file": "p", "hold_ms": 9}
    files: ClassVar = {"p": b"pauses: [{topic: 'bill*'}]"}


class TestRecords(PolicyContract):
    """`records` with every setting."""

    policy = RecordRules
    config: ClassVar = {
        "max_batch_bytes": 100,
        "max_records": 1,
        "compression": ["zstd"],
        "compression_min_bytes": 10,
        "max_age_ms": 1,
        "max_ahead_ms": 1,
    }


class TestAccess(PolicyContract):
    """`access` with every setting, for clients who may do little."""

    policy = Access
    config: ClassVar = {
        "teams": {"a": ["client:crowd-*", "u"]},
        "rules": [
            {
                "who": ["team:a", "ANONYMOUS"],
                "topics": {"orders": ["read", "write"], "p*": ["manage"]},
                "groups": {"g*": ["all"]},
                "transactions": {"t": ["write"]},
                "cluster": ["describe"],
            },
            {"who": ["*"], "effect": "deny", "topics": {"orders": ["write"]}},
        ],
        "auto_create_topics_enable": False,
    }


class TestAccessOfAll(PolicyContract):
    """`access` with rules that allow everything."""

    policy = Access
    config: ClassVar = {
        "rules": [
            {
                "who": ["*", "ANONYMOUS"],
                "topics": {"*": ["all"], "__*": ["all"]},
                "groups": {"*": ["all"]},
                "transactions": {"*": ["all"]},
                "cluster": ["all"],
            }
        ]
    }


class TestQuota(PolicyContract):
    """`quota` with the smooth rule."""

    policy = Quota
    config: ClassVar = {
        "quotas": [{"client_id": "<default>", "request_rate": 5, "consumer_byte_rate": 1000}]
    }


class TestKafkaQuota(PolicyContract):
    """`quota` with Kafka's rule."""

    policy = Quota
    config: ClassVar = {**TestQuota.config, "enforcement": "channel"}


def test_every_built_in_policy_passes_the_contract():
    """A new one without a class here fails."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    classes = project["entry-points"]["sluice.policies"].values()
    tested = {
        f"{each.policy.__module__}:{each.policy.__name__}"
        for each in PolicyContract.__subclasses__()
    }

    assert set(classes) <= tested


class NoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No setting."""


class Honest(Policy):
    """Forwards everything."""

    Config = NoConfig

    def on_request(self, request, peer, now_ms):
        return FORWARD


class Clocked(Honest):
    def on_request(self, request, peer, now_ms):
        time.monotonic()
        return FORWARD


class Opens(Honest):
    def on_request(self, request, peer, now_ms):
        Path(__file__).open().close()
        return FORWARD


class Mute(Honest):
    def on_request(self, request, peer, now_ms):
        return None


class Trusting(Honest):
    needs = Need.BODY

    def on_request(self, request, peer, now_ms):
        assert request.body[:1] != b"\xff"
        return FORWARD


class BelievesReplies(Honest):
    apis = hears_body = frozenset({ApiKey.METADATA})

    def on_response(self, request, response, peer, now_ms):
        assert response.body[:1] != b"\xff"
        return FORWARD


class Hoarder(Honest):
    def __init__(self, config, host):
        super().__init__(config, host)
        self.seen = {}

    def on_request(self, request, peer, now_ms):
        self.seen[peer.client_id] = [now_ms]
        return FORWARD


class BadHeir(Honest):
    def adopt(self, previous):
        self.seen = previous.no_such_state


class CloseOnce(Honest):
    is_closed = False

    def close(self):
        assert not self.is_closed
        self.is_closed = True


class Lax(Honest):
    Config = dict


def contract_of(kind):
    return type("Tested", (PolicyContract,), {"policy": kind})()


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Lax, "test_unknown_settings_are_refused"),
        (BelievesReplies, "test_it_survives_hostile_replies"),
        (Mute, "test_it_judges_every_request_that_it_declares"),
        (Clocked, "test_hooks_use_no_clock_no_thread_and_no_file"),
        (Opens, "test_hooks_use_no_clock_no_thread_and_no_file"),
        (Trusting, "test_it_survives_hostile_requests"),
        (BadHeir, "test_a_reload_keeps_it_working"),
        (Hoarder, "test_clients_leave_nothing_lasting"),
        (CloseOnce, "test_it_closes_twice"),
    ],
)
def test_a_policy_that_breaks_a_rule_fails(kind, test):
    """Each rule has a policy that breaks it."""
    with pytest.raises(Exception):  # noqa: B017, PT011 - an AssertionError, or the policy's own
        getattr(contract_of(kind), test)()


@for_each([name for name in vars(PolicyContract) if name.startswith("test_")])
def test_an_honest_policy_passes(test):
    """The same tests accept a policy that keeps the rules."""
    getattr(contract_of(Honest), test)()
    assert sys.getprofile() is None
