"""How entries of the config are checked, and their policies built."""

import importlib.metadata
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace
from typing import ClassVar

import msgspec
import pytest

from policies import discovery, registry
from policies.api import Host, Policy, PolicyConfigError
from policies.quota.policy import Quota
from policies.registry import PolicyEntry
from policies.testing import BenchHost
from policies.validation import SettingsError


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: int = 0


class Stranger(Policy):
    Config = Options
    closed: ClassVar[list[str]] = []
    made: ClassVar[int] = 0

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        type(self).made += 1
        assert isinstance(config, Options)
        if config.level == 1:
            raise PolicyConfigError("level", "one is too few")
        if config.level == 2:
            raise KeyError("inside")
        if config.level == 3:
            self.saved = host.load("file")
            host.call_at(7, lambda _: None)
            host.wake("key")

    def close(self) -> None:
        self.closed.append(self.host.name)


class NoPolicy:
    """An entry point that leads to the wrong thing."""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three installed plug-ins beside the built-in policies."""
    real = importlib.metadata.entry_points(group=discovery.GROUP)
    here = {"stranger": "Stranger", "wrong": "NoPolicy", "absent": "Missing"}
    points = EntryPoints(
        [
            *real,
            *(
                EntryPoint(name, f"{__name__}:{what}", discovery.GROUP)
                for name, what in here.items()
            ),
        ]
    )
    module = SimpleNamespace(Stranger=Stranger, NoPolicy=NoPolicy)
    monkeypatch.setitem(sys.modules, __name__, module)
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points.select(group=group)
    )
    Stranger.closed.clear()
    Stranger.made = 0


def texts(*entries: PolicyEntry | None) -> list[str]:
    return [str(each) for each in registry.inspect(entries)]


def test_builds_each_entry_in_order() -> None:
    """Entries keep their order, name, mode and config; each host does what the services do."""
    host = BenchHost()
    first, second = registry.build(
        [
            PolicyEntry(use="stranger", name="a", mode="observe", on_error="forward"),
            PolicyEntry(use="stranger", config={"level": 7}),
        ],
        host,
    )
    assert (first.name, first.mode, first.on_error) == ("a", "observe", "forward")
    assert (second.name, second.mode, second.on_error) == ("stranger", "enforce", "close")
    assert [entry.policy.host.observes for entry in (first, second)] == [True, False]
    assert second.policy.config == Options(7)
    first.policy.host.wake("key")
    assert host.woken == ["key"]


def test_every_entry_is_judged() -> None:
    """Unknown policies, bad settings, refusals and faults are all reported, each under its own path."""
    assert texts(
        PolicyEntry(use="limit"),
        None,
        PolicyEntry(use="stranger", name="b", config={"levle": 1}),
        PolicyEntry(use="stranger", name="c", config={"level": 1}),
        PolicyEntry(use="stranger", name="d", config={"level": 2}),
        PolicyEntry(use="limits", config={"request_max_bytes": "1 MiB"}),
    ) == [
        (
            "policies[0].use: found 'limit', expected MODULE:CLASS, or an installed policy: absent,"
            " access, admission, audit, fetch_floor, limits, maintenance, quota, records, stranger, wrong;"
            " did you mean limits?"
        ),
        "policies[2].config.levle: found an unknown key, expected a key: level; did you mean level?",
        "policies[3].config.level: one is too few",
        "policies[4].config: the policy stranger cannot be made: KeyError: 'inside'",
        (
            "policies[5].config.request_max_bytes: found '1 MiB',"
            " expected an integer from 1024 to 2147483647; did you mean 1048576?"
        ),
    ]


def test_a_policy_that_cannot_be_loaded_is_reported_where_it_is_used() -> None:
    """A missing class and a class that is no policy are problems of the entry's `use`."""
    wrong, absent = texts(PolicyEntry(use="wrong"), PolicyEntry(use="absent"))
    words = "is the class NoPolicy, expected a Policy with a Config"
    assert wrong == f"policies[0].use: {__name__}:NoPolicy {words}"
    assert absent.startswith(f"policies[1].use: {__name__}:Missing cannot be imported: Attribute")


def test_names_are_unique() -> None:
    """The default name counts as well."""
    (text,) = texts(PolicyEntry(use="stranger"), PolicyEntry(use="limits", name="stranger"))
    assert text == (
        "policies[1].name: found 'stranger', expected a name of its own (policies[0] has this one)"
    )


def test_a_failed_build_leaves_nothing_open() -> None:
    """When one entry cannot be built, the built ones are closed and all problems are raised."""
    entries = [PolicyEntry(use="stranger", name="a"), PolicyEntry(use="missing")]
    with pytest.raises(SettingsError, match="policies") as caught:
        registry.build(entries, BenchHost())
    assert len(caught.value.problems) == 1
    assert Stranger.closed == ["a"]


def test_policies_that_are_not_kept_are_closed() -> None:
    """A check leaves none open, and neither does a mistake in another entry."""
    entries = [PolicyEntry(use="stranger", name="a")]
    assert texts(*entries) == []
    assert Stranger.closed == ["a"]
    registry.inspect([*entries, PolicyEntry(use="missing")], keep=True)
    assert Stranger.closed == ["a", "a"]


# -- once ---------------------------------------------------------------------------------------


def test_a_policy_is_made_once_from_inspection_to_service() -> None:
    """The inspected instance is the one that serves; its memory budget is read in between."""
    entries = [PolicyEntry(use="stranger"), PolicyEntry(use="quota", config={"quotas": []})]
    assert registry.inspect(entries, keep=True) == []
    assert Stranger.made == 1
    assert registry.body_apis(entries)
    built = registry.build(entries, BenchHost())
    assert registry.body_apis(entries)
    assert Stranger.made == 1
    assert Stranger.closed == []
    registry.discard(entries)  # nothing is left of the drafts
    assert Stranger.closed == []
    assert registry.build(entries, BenchHost())[0].policy is not built[0].policy


def test_a_drafts_requests_to_the_proxy_wait_for_it() -> None:
    """It reads its file at once; its alarm is set when there is a clock; no request is woken."""
    entries = [PolicyEntry(use="stranger", config={"level": 3})]
    registry.inspect(entries, BenchHost(files={"file": b"saved"}), keep=True)
    host = BenchHost()
    (built,) = registry.build(entries, host)
    assert isinstance(built.policy, Stranger)
    assert built.policy.saved == b"saved"
    assert [at_ms for at_ms, _, _ in host.alarms] == [7]
    assert host.woken == []


def test_the_files_that_policies_read_are_known_by_their_digest() -> None:
    """A policy's state file is not among them. The digest changes with the content."""

    def digest(content: bytes) -> str:
        (path, found), *more = registry.digests(
            inspected({"quotas_file": "q", **STATE}, content)
        ).items()
        assert (path, more) == ("q", [])
        return found

    assert digest(QUOTAS) == digest(QUOTAS)
    assert digest(QUOTAS) != digest(QUOTAS + b"# more\n")
    assert registry.digests([PolicyEntry(use="quota")]) == {}


def test_two_entries_may_read_one_file() -> None:
    """A state file has one owner; a file that Sluice only reads may have several readers."""
    entries = [PolicyEntry(use="quota", name=n, config={"quotas_file": "q"}) for n in "ab"]
    assert registry.inspect(entries, BenchHost(files={"q": QUOTAS})) == []
    entries = [PolicyEntry(use="quota", name=n, config=STATE) for n in "ab"]
    (problem,) = registry.inspect(entries, BenchHost())
    assert "the entry a keeps its state in the same file" in problem.found


def test_every_mistake_of_a_policys_file_is_a_problem_of_its_setting() -> None:
    """Each begins with the key path of the setting."""
    bad = b"version: 1\nquotas: [{user: a}, {request_rate: 1}]"
    entries = [PolicyEntry(use="quota", config={"quotas_file": "q"})]
    said = list(map(str, registry.inspect(entries, BenchHost(files={"q": bad}))))
    assert said == [
        (
            "policies[0].config.quotas_file: quotas[0] (q:2): found no limit, expected at least one of "
            "request_rate, producer_byte_rate, consumer_byte_rate"
        ),
        "policies[0].config.quotas_file: quotas[1] (q:2): found no entity, expected user, client_id, or both",
    ]


def test_hints_come_from_the_policy_that_was_made() -> None:
    """They have the path of the entry."""
    entries = inspected({"quotas_file": "q", "quotas": [{"user": "a", "request_rate": 2}]}, QUOTAS)
    assert registry.hints(entries) == [
        (
            "policies[0].config.quotas_file: the request_rate of {user: a} has no effect: quotas[0] sets it "
            "too, and the configuration wins"
        )
    ]


def test_a_policy_whose_hints_raise_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no hints."""

    def hints(_: Quota) -> Iterator[str]:
        yield "quotas: there are some"
        raise KeyError("inside")

    monkeypatch.setattr(Quota, "hints", hints)
    assert registry.hints(inspected({}, b"")) == []


QUOTAS = b"version: 1\nquotas: [{user: a, request_rate: 1}]\n"
STATE: dict[str, object] = {"state_file": "s"}


def inspected(config: dict[str, object], content: bytes) -> list[PolicyEntry]:
    entries = [PolicyEntry(use="quota", config=config)]
    assert registry.inspect(entries, BenchHost(files={"q": content})) == []
    return entries
