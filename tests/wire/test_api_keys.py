"""The names of the API keys."""

from tests.support.messages.golden import facts
from wire.api_keys import ApiKey


def test_keys_are_exactly_those_that_kafka_knows() -> None:
    """There is one member for each key of the facts, with Kafka's number and no alias."""
    named = {f.name.upper(): f.api_key for f in facts()}
    assert {key.name.replace("_", ""): int(key) for key in ApiKey} == named
    assert len(ApiKey.__members__) == len(ApiKey)
