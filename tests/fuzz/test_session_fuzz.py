"""`Session` against peers of every kind; `session_fuzz` lists the rules."""

import os

import pytest

from tests.fuzz import conversations
from tests.fuzz.engines import KINDS
from tests.fuzz.session_fuzz import SessionFuzz

SEED = int(os.environ.get("SEED", "0"))
EPISODES = 500 if "SECONDS" not in os.environ else int(float(os.environ["SECONDS"]) * 100)
"""A fixed number in the tests, a few seconds. `make fuzz` plays a hundred for each second."""


@pytest.mark.timeout(1800 + EPISODES)
def test_no_bytes_and_no_order_of_events_break_a_session() -> None:
    """Episodes of honest and hostile peers, in every setting, all end well and leave nothing behind."""
    fuzz = SessionFuzz()
    for seed in range(SEED, SEED + EPISODES):
        try:
            fuzz.play(seed)
        except Exception as error:
            error.add_note(f"episode {seed}")
            raise
    assert fuzz.frames > 10 * EPISODES


@pytest.mark.parametrize("name", conversations.names())
def test_the_corpus_ends_well_in_any_chunks(name: str) -> None:
    """Each conversation of the corpus ends well before every
    chain, in whole reads and in reads of 1, 3 and 13 bytes.
    """
    fuzz = SessionFuzz()
    for conversation in conversations.read(name):
        for kind in KINDS:
            for chunk in (1 << 18, 13, 3, 1):
                fuzz.replay(kind, conversation, chunk)
