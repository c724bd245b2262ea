"""Random valid messages of clients that may do nothing, or little; `access_fuzz` lists the rules."""

import os

import pytest

from tests.fuzz.access_fuzz import RIGHTS, AccessFuzz

SEED = int(os.environ.get("SEED", "0"))
MESSAGES = 3_000 if "SECONDS" not in os.environ else int(float(os.environ["SECONDS"]) * 1_700)
"""A fixed number in the tests, a second. `make fuzz` sends half a million of each client, a million together."""


@pytest.mark.timeout(1800 + MESSAGES // 100)
@pytest.mark.parametrize("kind", RIGHTS)
def test_nothing_is_changed_and_nothing_is_told_without_a_right(kind: str) -> None:
    """What a client has no right to is in no request at the broker, and in no reply to the client."""
    fuzz = AccessFuzz(kind, SEED)
    fuzz.play(MESSAGES)
    print(f"{fuzz.sent} messages, {sum(fuzz.forwarded.values())} forwarded: {dict(fuzz.forwarded)}")  # noqa: T201
    assert fuzz.answered > MESSAGES / 4
