"""Alterations are judged by Kafka's rules and messages, each by itself and as a whole."""

import math

import pytest

from policies.quota.alter import AlterResult, Change, evaluate, quota_entity
from policies.quota.entity import DEFAULT_NAME, ClientQuotas, QuotaEntity
from wire.client_quotas import Alteration

ALICE = QuotaEntity("alice")
NAMED = (("user", "alice"),)
STANDING = ClientQuotas()
STANDING.set(ALICE, "request_rate", 100.0)
STANDING.set_override(ALICE, "producer_byte_rate", 5000.0)


def judged(*ops: tuple[str, float | None]) -> AlterResult:
    (told,) = evaluate([Alteration(NAMED, ops)], STANDING)
    assert told.entity == NAMED
    return told


@pytest.mark.parametrize(
    ("entity", "meant"),
    [
        ((("user", "a"),), QuotaEntity("a", None)),
        ((("client-id", None),), QuotaEntity(None, DEFAULT_NAME)),
        ((("client-id", "c"), ("user", None)), QuotaEntity(DEFAULT_NAME, "c")),
        ((("user", None), ("client-id", None)), QuotaEntity(DEFAULT_NAME, DEFAULT_NAME)),
    ],
)
def test_entities_are_named_as_kafka_names_them(
    entity: tuple[tuple[str, str | None], ...], meant: QuotaEntity
) -> None:
    """Entity types come in any order; a null name is the default."""
    assert quota_entity(entity) == meant


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ((), "Invalid empty client quota entity"),
        ((("", "a"),), "Unhandled client quota entity type: "),
        ((("group", "a"),), "Unhandled client quota entity type: group"),
        ((("user", ""),), "Empty user not supported"),
        ((("client-id", ""),), "Empty client-id not supported"),
        ((("user", "a"), ("user", "b")), "duplicate entity entry user"),
        ((("user", "a"), ("ip", "1.2.3.4")), "IP entity should not be combined"),
        ((("client-id", None), ("ip", None)), "IP entity should not be combined"),
        ((("ip", "1.2.3.4"),), "forward_other_keys"),
        ((("user", "x" * 20_000),), "The user must not be longer"),
        ((("user", DEFAULT_NAME),), "to name the default, give no name"),
    ],
)
def test_an_impossible_entity_is_refused(
    entity: tuple[tuple[str, str | None], ...], words: str
) -> None:
    """Each is refused with Kafka's message, or with Sluice's own where Kafka has none."""
    told = quota_entity(entity)
    assert isinstance(told, str)
    assert words in told
    assert evaluate([Alteration(entity, (("request_rate", 1.0),))], ClientQuotas()) == [
        AlterResult(entity, (), told)
    ]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("request_rate", 0.0, "Quota request_rate must be greater than 0"),
        ("request_rate", -1.0, "Quota request_rate must be greater than 0"),
        ("request_rate", math.nan, "finite"),
        ("producer_byte_rate", math.inf, "finite"),
        ("request_rate", -math.inf, "Quota request_rate must be"),
        ("producer_byte_rate", 10000.5, "whole number"),
        ("bad", 1.0, "Invalid configuration key bad"),
        ("bad", None, "Invalid configuration key bad"),
        ("", 1.0, "Invalid configuration key"),
        ("request_percentage", 50.0, "Sluice's own is request_rate"),
    ],
)
def test_an_impossible_value_is_refused(key: str, value: float | None, words: str) -> None:
    """One bad key, and no key of its alteration is changed."""
    told = judged(("consumer_byte_rate", 7.0), (key, value))
    assert words in (told.message or "")
    assert told.changes == ()


def test_values_that_may_be_set() -> None:
    """A request rate may be a fraction; a file's value may be overridden; what holds already is no change."""
    told = judged(("request_rate", 100.0), ("consumer_byte_rate", 1.0))
    assert told.message is None
    assert told.changes == (
        Change(ALICE, "request_rate", 100.0),
        Change(ALICE, "consumer_byte_rate", 1.0),
    )
    assert judged(("request_rate", 0.5)).changes == (Change(ALICE, "request_rate", 0.5),)

    told = judged(("producer_byte_rate", 5000.0), ("consumer_byte_rate", None))
    assert told == AlterResult(NAMED, ())
    assert judged() == AlterResult(NAMED, ())


def test_only_an_override_can_be_removed() -> None:
    """The value of a file stays, and the reply says in which file it is set."""
    assert judged(("producer_byte_rate", None)).changes == (
        Change(ALICE, "producer_byte_rate", None),
    )
    in_quotas_file = ClientQuotas()
    in_quotas_file.set(ALICE, "request_rate", 9.0, "quotas_file")
    for quotas, file in ((STANDING, "config"), (in_quotas_file, "quotas")):
        (told,) = evaluate([Alteration(NAMED, (("request_rate", None),))], quotas)
        assert told.changes == ()
        assert f"request_rate of user 'alice' is set in Sluice's {file} file" in told.message


def test_a_key_and_an_entity_are_altered_once() -> None:
    """One that comes twice, in any order of its parts and with the same value, gets one error and no change."""
    told = judged(("request_rate", 1.0), ("request_rate", 1.0))
    assert told.message == "Duplicate quota key request_rate"

    parts = (("user", "a"), ("client-id", None))
    op = ("request_rate", 1.0)
    entries = [
        Alteration(parts, (op,)),
        Alteration(NAMED, (op,)),
        Alteration(parts[::-1], (("request_rate", 2.0),)),
    ]
    twice, alone = evaluate(entries, ClientQuotas())
    assert twice == AlterResult(
        parts, (), "Ignoring duplicate entity user 'a', the default client-id"
    )
    assert alone.changes == (Change(ALICE, *op),)
