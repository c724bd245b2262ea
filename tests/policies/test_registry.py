"""How policies are found, checked and built."""

from __future__ import annotations

import importlib.metadata
import sys
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace
from typing import ClassVar

import msgspec
import pytest

from policies import registry
from policies.admission import Admission
from policies.api import Host, Policy, PolicyConfigError
from policies.fetch_floor import FetchFloor
from policies.limits import Limits
from policies.quota.policy import Quota
from policies.registry import PolicyEntry
from policies.settings import SettingsError
from policies.testing import BenchHost


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: int = 0


class Stranger(Policy):
    Config = Options
    closed: ClassVar[list[str]] = []

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        assert isinstance(config, Options)
        if config.level == 1:
            raise PolicyConfigError("level", "one is too few")
        if config.level == 2:
            raise KeyError("inside")

    def close(self) -> None:
        self.closed.append(self.host.name)


class NoPolicy:
    """An entry point that leads to the wrong thing."""


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three strangers beside our own."""
    real = importlib.metadata.entry_points(group=registry.GROUP)
    here = {"stranger": "Stranger", "wrong": "NoPolicy", "absent": "Missing"}
    points = EntryPoints(
        [
            *real,
            *(
                EntryPoint(name, f"{__name__}:{what}", registry.GROUP)
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


def texts(*entries: PolicyEntry | None) -> list[str]:
    return [str(each) for each in registry.inspect(entries)]


def test_ours_and_a_strangers_are_found_the_same_way() -> None:
    """Every policy of the group that can be loaded is available under its name."""
    assert registry.available() == {
        "admission": Admission,
        "fetch_floor": FetchFloor,
        "limits": Limits,
        "quota": Quota,
        "stranger": Stranger,
    }


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
    assert second.policy.config == Options(7)
    first.policy.host.wake("key")
    assert host.woken == ["key"]


def test_every_entry_is_judged() -> None:
    """Unknown policies, bad settings, refusals and faults are all told, each under its own path."""
    assert texts(
        PolicyEntry(use="limit"),
        None,
        PolicyEntry(use="stranger", name="b", config={"levle": 1}),
        PolicyEntry(use="stranger", name="c", config={"level": 1}),
        PolicyEntry(use="stranger", name="d", config={"level": 2}),
        PolicyEntry(use="limits", config={"request_max_bytes": "1 MiB"}),
    ) == [
        (
            "policies[0].use: found 'limit', expected an installed policy: absent, admission, fetch_floor,"
            " limits, quota, stranger, wrong; did you mean limits?"
        ),
        "policies[2].config.levle: found an unknown key, expected a key: level; did you mean level?",
        "policies[3].config.level: one is too few",
        "policies[4].config: the policy stranger cannot be made: KeyError: 'inside'",
        (
            "policies[5].config.request_max_bytes: found '1 MiB',"
            " expected an integer from 1024 to 2147483647"
        ),
    ]


def test_what_cannot_be_loaded_is_told_to_whoever_uses_it() -> None:
    """A missing class and a class that is no policy are problems of the entry's `use`."""
    wrong, absent = texts(PolicyEntry(use="wrong"), PolicyEntry(use="absent"))
    assert wrong == f"policies[0].use: {__name__}:NoPolicy is not a Policy with a Config"
    assert absent.startswith(f"policies[1].use: {__name__}:Missing cannot be imported: Attribute")


def test_names_are_unique() -> None:
    """The default name counts as well."""
    (text,) = texts(PolicyEntry(use="stranger"), PolicyEntry(use="limits", name="stranger"))
    assert text == (
        "policies[1].name: found 'stranger', expected a name of its own (policies[0] has this one)"
    )


def test_a_failed_build_leaves_nothing_open() -> None:
    """When one entry cannot be built, those that were are closed and all problems raised."""
    entries = [PolicyEntry(use="stranger", name="a"), PolicyEntry(use="nobody")]
    with pytest.raises(SettingsError, match="policies") as caught:
        registry.build(entries, BenchHost())
    assert len(caught.value.problems) == 1
    assert Stranger.closed == ["a"]


def test_inspecting_closes_what_it_made() -> None:
    """A check leaves no policy behind."""
    assert texts(PolicyEntry(use="stranger", name="x")) == []
    assert Stranger.closed == ["x"]
