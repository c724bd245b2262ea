"""Kafka's error codes, as far as Sluice speaks of them."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from wire.errors import ErrorCode, WireError


@pytest.mark.parametrize("code", ErrorCode)
def test_codes_have_kafkas_numbers_and_names(code: ErrorCode) -> None:
    """Each code agrees with kio's list, generated from Kafka's `Errors`."""
    assert KioErrorCode(code).name.upper() == code.name


def test_a_wire_error_is_a_fault_of_values() -> None:
    """Code that guards against bad values in general also guards against bad bytes."""
    assert issubclass(WireError, ValueError)
