"""The table of APIs against two other witnesses: the checked-in facts and kio's schemas."""

import dataclasses
import re
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

from tests.support.messages.every_case import for_each
from tests.support.messages.golden import facts
from tests.support.releases.facts import last_of, names_of, number
from wire import apis
from wire.api_keys import ApiKey
from wire.apis import ThrottleField

INT16 = st.integers(-(2**15), 2**15 - 1)

SPOKEN_AMONG_BROKERS = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
}
"""On the broker's listener, yet asked by brokers only (KIP-932: the share coordinator)."""

CAPPED = {
    ApiKey.SASL_HANDSHAKE: (1, 1),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
}
"""After SaslHandshake v0 tokens have no Kafka headers, and cannot be framed; InitProducerId v6 is unstable."""

KIO = [
    (key, version)
    for key, name in sorted(api_key_map.items())
    for version in sorted(schema_name_map[name])
]


def place_of(api: apis.Api) -> str:
    """Return the place of throttle_time_ms in the notation of the checked-in facts."""
    if api.throttle is ThrottleField.LAST:
        return "last"
    return "" if api.throttle is ThrottleField.ABSENT else str(api.throttle_offset)


def test_every_fact_of_the_table_is_kafkas() -> None:
    """The table and Kafka agree in every version on flexibility, header versions, throttle and addresses."""
    for fact in facts():
        api = apis.known(fact.api_key, fact.version)
        assert api is not None, fact
        assert (api.key, api.version, api.name) == (fact.api_key, fact.version, fact.name)
        assert api.flexible == fact.flexible, fact
        if fact.kind == "request":
            assert api.request_header_version == fact.header_version, fact
            assert api.may_wait or not fact.own_wait, fact
        else:
            assert api.response_header_version == fact.header_version, fact
            assert place_of(api) == fact.throttle, fact
            assert api.carries_addresses == bool(fact.broker_addresses), fact


def test_the_table_has_no_version_that_kafka_does_not_know() -> None:
    """Each key's first and last version are known; the versions next to them are not."""
    versions: dict[int, set[int]] = {}
    for fact in facts():
        versions.setdefault(fact.api_key, set()).add(fact.version)
    assert set(versions) == set(ApiKey)
    for key, those in versions.items():
        assert {v for v in range(-1, 60) if apis.known(key, v) is not None} == those


def test_what_is_offered_is_what_a_client_may_ask_a_broker() -> None:
    """Offered is every version valid on a broker's listener in 3.9 to 4.4, except the named exceptions."""
    expected: dict[int, tuple[int, int]] = {}
    for fact in facts():
        if fact.broker_listener and fact.api_key not in SPOKEN_AMONG_BROKERS:
            low, high = expected.get(fact.api_key, (fact.version, fact.version))
            expected[fact.api_key] = (min(low, fact.version), max(high, fact.version))
    assert dict(apis.OFFERED) == expected | CAPPED


def test_a_removed_version_names_the_first_release_without_it() -> None:
    """Of the versions that are offered; those that no release removed are the range that clients are told to use."""
    for fact in facts():
        if fact.api_key not in apis.OFFERED:
            continue
        api = apis.known(fact.api_key, fact.version)
        assert api is not None
        last = last_of(fact)
        assert bool(api.removed_in) == bool(last), fact
        if last:
            assert number(last) < number(api.removed_in), fact
            assert not any(
                number(last) < number(name) < number(api.removed_in) for name in names_of(facts())
            ), fact
        low, high = apis.OFFERED[fact.api_key]
        if low <= fact.version <= high:
            lowest, highest = apis.kept_versions(fact.api_key)
            assert (lowest <= fact.version <= highest) == (not last), fact


def test_an_api_that_may_wait_has_its_own_wait_or_waits_for_a_group() -> None:
    """No other API is exempt from the deadline of replies."""
    own = {(f.api_key, f.version) for f in facts() if f.own_wait}
    groups = {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
    for fact in facts():
        api = apis.known(fact.api_key, fact.version)
        assert api is not None
        assert api.may_wait == ((api.key, api.version) in own or api.key in groups), fact


@for_each(KIO)
def test_the_table_agrees_with_the_schemas_of_kio(key: int, version: int) -> None:
    """The classes of kio read and write the same headers and the same compact types as the table says."""
    api = apis.known(key, version)
    assert api is not None
    request, response = load_request_schema(key, version), load_response_schema(key, version)
    assert api.flexible == request.__flexible__ == response.__flexible__
    assert api.request_header_version == request.__header_schema__.__version__
    assert api.response_header_version == response.__header_schema__.__version__
    assert api.name.lower() == api_key_map[key].replace("_", "")


RECORDS = {"records", "unaligned_records"}
"""Kafka's types of fields that hold records."""


def kio_records(schema: type[Any]) -> bool:
    """Return whether kio's schema has a field of records, in any array."""
    for each in dataclasses.fields(schema):
        if each.metadata.get("kafka_type") in RECORDS:
            return True
    kinds = get_type_hints(schema).values()
    inner = [one for kind in kinds for one in (kind, *get_args(kind))]
    return any(kio_records(one) for one in inner if dataclasses.is_dataclass(one))


def test_the_apis_that_move_records_are_those_whose_schemas_hold_records() -> None:
    """A quota of bytes judges the former; a later API that moves records fails this until the table says so."""
    requests = {key for key, version in KIO if kio_records(load_request_schema(key, version))}
    replies = {key for key, version in KIO if kio_records(load_response_schema(key, version))}
    assert requests == apis.RECORDS_IN_REQUESTS
    assert replies == apis.RECORDS_IN_REPLIES
    assert ApiKey.SHARE_FETCH in replies
    assert ApiKey.SHARE_ACKNOWLEDGE not in requests | replies


@given(key=INT16, version=INT16)
def test_find_knows_what_is_offered_and_nothing_else(key: int, version: int) -> None:
    """`find` gives the entry inside the offered range, the same
    object each time, and None for any other pair of int16.
    """
    api = apis.find(key, version)
    low, high = apis.OFFERED.get(key, (0, -1))
    assert (api is not None) == (low <= version <= high)
    if api is not None:
        assert (api.key, api.version) == (key, version)
    assert apis.find(key, version) is api
    assert apis.BY_KEY_AND_VERSION.get(key << 16 | version) is api


def test_every_offered_version_is_found() -> None:
    """`find` gives, for each key and version of OFFERED, the object that `known` gives."""
    for key, (low, high) in apis.OFFERED.items():
        for version in range(low, high + 1):
            api = apis.find(key, version)
            assert api is not None
            assert api is apis.known(key, version)
    assert len(apis.BY_KEY_AND_VERSION) == sum(
        high - low + 1 for low, high in apis.OFFERED.values()
    )


def test_names_and_keys_lead_to_each_other() -> None:
    """Kafka's spelling of each name gives its key; an unknown key is named by its number."""
    for key in ApiKey:
        assert apis.key_of(apis.name_of(key)) == key
    assert apis.key_of("DeleteTopics") == ApiKey.DELETE_TOPICS
    assert apis.key_of("deletetopics") is None
    assert apis.name_of(4711) == "api 4711"


def test_requests_before_authentication_and_quota_requests_have_small_limits() -> None:
    """The three APIs that are legal before authentication and
    the two of client quotas have size limits of their own.
    """
    limits = {api.key: api.request_max_bytes for api in apis.BY_KEY_AND_VERSION.values()}
    assert {key: limit for key, limit in limits.items() if limit is not None} == {
        ApiKey.SASL_HANDSHAKE: 4096,
        ApiKey.API_VERSIONS: 4096,
        ApiKey.SASL_AUTHENTICATE: 524_288,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: 1 << 20,
        ApiKey.ALTER_CLIENT_QUOTAS: 1 << 20,
    }


def test_the_table_cannot_be_changed_from_outside() -> None:
    """OFFERED is read-only and every entry is frozen, because all sessions share them."""
    with pytest.raises(TypeError):
        apis.OFFERED[0] = (0, 0)  # type: ignore[index] - that is the point
    api = apis.find(0, 9)
    assert api is not None
    with pytest.raises(dataclasses.FrozenInstanceError):
        api.flexible = False  # type: ignore[misc] - that is the point


def test_keys_are_exactly_those_that_kafka_knows() -> None:
    """There is one member for each key of the facts, with Kafka's number and name, and no alias."""
    named = {f.name.upper(): f.api_key for f in facts()}
    assert {key.name.replace("_", ""): int(key) for key in ApiKey} == named
    assert len(ApiKey.__members__) == len(ApiKey)
    for key in ApiKey:
        assert key.name == re.sub(r"(?<!^)(?=[A-Z])", "_", apis.name_of(key)).upper()
