"""The order in which quotas are listed, over Kafka and over the admin server."""

from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from proxy.cli.quota_source import QuotaRow, by_entity


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
