"""The interests of a policy are read once and checked."""

import math

import pytest

from policies.api import Need, Policy
from policies.interests import interests_of
from policies.testing import BenchHost
from wire.apis import ApiKey


def policy(**attributes: object) -> Policy:
    """A policy with these attributes."""
    made = Policy({}, BenchHost())
    vars(made).update(attributes)
    return made


def test_interests_are_read_from_the_attributes():
    """An API without a need of its own needs the header."""
    found = interests_of(
        policy(apis={ApiKey.FETCH}, response_apis=frozenset(), needs={1: Need.BODY}, tick_ms=7)
    )
    assert found.apis == {1}
    assert found.response_apis == frozenset()
    assert (found.need(1), found.need(0)) == (Need.BODY, Need.HEADER)
    assert found.tick_ms == 7
    assert interests_of(policy(hears_body={3, 1})).hears_body == {1, 3}
    assert interests_of(policy(needs=Need.HEAD)).need(18) is Need.HEAD


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"tick_ms": math.inf}, "tick_ms is inf, expected an integer in 0..2147483647"),
        ({"tick_ms": -1}, "tick_ms is -1"),
        ({"apis": 1}, "apis is 1, expected a frozenset of API keys, or None"),
        ({"apis": {"Fetch"}}, "apis is an object of type set"),
        ({"response_apis": [1]}, "response_apis is an object of type list"),
        ({"hears_body": None}, "hears_body is None, expected a frozenset of API keys"),
        ({"hears_body": [3]}, "hears_body is an object of type list"),
        ({"hears_body": {4711}}, "hears_body has the key 4711, expected the key of an API that"),
        ({"hears_body": {18}}, "hears_body has the key 18, expected the key of an API that Sluice"),
        ({"hears_body": {3}, "apis": {1}}, "hears_body has Metadata, which is not in apis"),
        ({"hears_body": {3}, "response_apis": {1}}, "has Metadata, which is not in response_apis"),
        ({"asked_first": 1}, "asked_first is 1, expected True or False"),
        ({"answers": None}, "answers is None, expected a frozenset of API keys"),
        ({"answers": [48]}, "answers is an object of type list"),
        ({"needs": "BODY"}, "needs is 'BODY', expected a Need, or a mapping"),
        ({"needs": {1: 2}}, "needs is an object of type dict"),
        ({"max_versions": [1]}, "max_versions is an object of type list, expected a mapping"),
        ({"max_versions": {4711: 1}}, "max_versions has the key 4711, expected the key of an API"),
        ({"max_versions": {18: 2}}, "max_versions has the key 18, expected the key of an API"),
        (
            {"max_versions": {0: 99}},
            "max_versions of Produce is 99, expected a version in 0..13, or None",
        ),
        ({"max_versions": {0: True}}, "max_versions of Produce is True, expected a version in"),
    ],
)
def test_a_wrong_attribute_is_named_with_what_was_expected(attributes, words):
    """It is found when the policy is made, not when the first request comes."""
    with pytest.raises(TypeError) as raised:
        interests_of(policy(**attributes))
    assert words in str(raised.value)
