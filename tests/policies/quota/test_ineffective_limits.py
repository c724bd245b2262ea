"""Limits without effect are named, of both files."""

from policies.quota.config import QuotaLine
from policies.quota.entity import DEFAULT_NAME, ClientQuotas, QuotaEntity
from policies.quota.ineffective_limits import MAX_HINTS, ineffective_limits

OUTRANKED = (
    "it holds for no client: the request_rate of {user: <default>} outranks it for every client "
    "(Kafka's order: user and client id, user, client id)"
)


def hints_of(lines: list[QuotaLine], in_file: dict[QuotaEntity, float]) -> list[str]:
    quotas = ClientQuotas()
    for line in lines:
        for key, value in line.limits():
            quotas.set(line.entity, key, value)
    for entity, rate in in_file.items():
        quotas.set(entity, "request_rate", rate, "quotas_file")
    return list(ineffective_limits(lines, quotas))


def test_a_limit_that_another_file_outranks_is_named() -> None:
    """Either file may have the limit that wins."""
    everyone, noisy = QuotaEntity(DEFAULT_NAME), QuotaEntity(client_id="noisy")
    lines = [QuotaLine(client_id="noisy", request_rate=1)]
    assert hints_of(lines, {everyone: 5}) == [f"quotas[0].request_rate: {OUTRANKED}"]
    lines = [QuotaLine(user=DEFAULT_NAME, request_rate=1)]
    assert hints_of(lines, {noisy: 5}) == [
        f"quotas_file: the request_rate of {{client_id: noisy}}: {OUTRANKED}"
    ]


def test_a_limit_that_both_files_set_is_named() -> None:
    """The configuration's holds."""
    lines = [QuotaLine(user="bob", request_rate=1), QuotaLine(user="alice", request_rate=1)]
    assert hints_of(lines, {QuotaEntity("alice"): 5, QuotaEntity("carol"): 5}) == [
        (
            "quotas_file: the request_rate of {user: alice} has no effect: quotas[1] sets it too, and the "
            "configuration wins"
        )
    ]


def test_of_many_limits_some_are_named_and_the_others_counted() -> None:
    """A generated file may have thousands."""
    lines = [QuotaLine(user=DEFAULT_NAME, request_rate=1)]
    found = hints_of(lines, {QuotaEntity(client_id=str(n)): 1 for n in range(MAX_HINTS + 7)})
    assert len(found) == MAX_HINTS + 1
    assert found[-1].startswith("quotas_file: 7 more of its limits")


def test_files_without_such_limits_have_no_hints() -> None:
    """A default and a name beside it both have their clients."""
    assert not hints_of([QuotaLine(user=DEFAULT_NAME, request_rate=1)], {QuotaEntity("alice"): 5})
