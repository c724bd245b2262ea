"""The order in which quotas are listed and the requests that change them, over Kafka and over the admin server."""

from collections.abc import Mapping

import pytest

from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from proxy.admin.errors import UnreachableError
from proxy.cli.quota_source import Ops, QuotaRow, batches, by_entity, send_all

ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")


def test_quotas_are_listed_by_user_then_client_id() -> None:
    """A default comes before names; client ids of all users come last."""
    entities = [
        QuotaEntity(DEFAULT_NAME),
        QuotaEntity("alice", DEFAULT_NAME),
        QuotaEntity("alice", "app"),
        QuotaEntity("alice"),
        QuotaEntity("bob"),
        QuotaEntity(None, DEFAULT_NAME),
        QuotaEntity(None, "app"),
    ]
    rows = [QuotaRow(each, "request_rate", 1.0, "file") for each in entities]
    shuffled = [rows[place] for place in (3, 6, 0, 5, 1, 4, 2)]
    assert sorted(shuffled, key=by_entity) == rows


def test_changes_are_parted_into_as_few_requests_as_possible() -> None:
    """An entity is never divided; one that is too large for any request has one of its own."""
    names = "abcdef"
    sizes = dict(zip(names, (3, 3, 4, 9, 1, 2), strict=True))
    parts = batches(
        {QuotaEntity(name): {} for name in names}, lambda entity, _: sizes[entity.user or ""], 7
    )
    assert [[entity.user for entity in part] for part in parts] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e", "f"],
    ]
    assert batches({}, lambda *_: 1, 7) == []


def test_all_parts_are_validated_before_the_first_is_made() -> None:
    """A change of one entity needs no request of its own for that: the server judges it as a whole."""
    sent: list[tuple[int, bool]] = []

    def send(changes: Mapping[QuotaEntity, Ops], *, dry_run: bool) -> list[str]:
        sent.append((len(changes), dry_run))
        return [f"{len(changes)} {dry_run}"]

    one, two = {ALICE: {}}, {BOB: {}, QuotaEntity("carol"): {}}
    assert send_all([one], send, dry_run=False) == ["1 False"]
    assert send_all([one, two], send, dry_run=False) == ["1 False", "2 False"]
    assert send_all([one], send, dry_run=True) == ["1 True"]
    assert sent == [(1, False), (1, True), (2, True), (1, False), (2, False), (1, True)]


def test_a_failure_in_between_says_how_much_was_made() -> None:
    """A second run continues, because it changes only the rest."""

    def send(changes: Mapping[QuotaEntity, Ops], *, dry_run: bool) -> list[str]:
        if BOB in changes and not dry_run:
            raise UnreachableError("gone")
        return []

    words = r"gone \(changed before: 1 of 2 entities; run it again\)"
    with pytest.raises(UnreachableError, match=words):
        send_all([{ALICE: {}}, {BOB: {}}], send, dry_run=False)
    with pytest.raises(UnreachableError, match=r"^gone$"):
        send_all([{BOB: {}}], send, dry_run=False)
