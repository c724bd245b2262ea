"""The Kafka error codes that Sluice uses."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from wire.errors import ErrorCode, WireError


@pytest.mark.parametrize("code", ErrorCode)
def test_codes_have_kafkas_numbers_and_names(code: ErrorCode) -> None:
    """Each code agrees with kio's list, generated from Kafka's `Errors`."""
    assert KioErrorCode(code).name.upper() == code.name


def test_a_wire_error_is_a_value_error() -> None:
    """Code that catches ValueError also catches malformed bytes."""
    assert issubclass(WireError, ValueError)
