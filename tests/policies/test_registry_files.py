"""Files that policies read while they are made, and their hints."""

from collections.abc import Iterator

import pytest

from policies import registry
from policies.quota.policy import Quota
from policies.registry import PolicyEntry
from policies.testing import BenchHost


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
