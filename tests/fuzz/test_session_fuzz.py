"""`Session` against peers of every kind: see `session_fuzz` for what must hold."""

from __future__ import annotations

import os

import pytest

from tests.fuzz import conversations
from tests.fuzz.engines import KINDS
from tests.fuzz.session_fuzz import SessionFuzz

SEED = int(os.environ.get("SEED", "0"))
EPISODES = 1500 if "SECONDS" not in os.environ else int(float(os.environ["SECONDS"]) * 100)
"""So many in the tests, whatever the machine: about ten seconds. By `make fuzz` a hundred for each second."""


@pytest.mark.slow
@pytest.mark.timeout(300 + EPISODES)
def test_no_bytes_and_no_order_of_events_break_a_session() -> None:
    """Episodes of both peers, honest and hostile, in every setting: each ends well and leaves nothing behind."""
    fuzz = SessionFuzz()
    for seed in range(SEED, SEED + EPISODES):
        try:
            fuzz.play(seed)
        except Exception as error:
            error.add_note(f"episode {seed}")
            raise
    assert fuzz.frames > 10 * EPISODES


@pytest.mark.parametrize("name", conversations.names())
def test_the_corpus_ends_well_however_it_is_read(name: str) -> None:
    """Each conversation of the corpus, before every chain, in whole reads and in reads of 1, 3 and 13 bytes."""
    fuzz = SessionFuzz()
    for conversation in conversations.read(name):
        for kind in KINDS:
            for chunk in (1 << 18, 13, 3, 1):
                fuzz.replay(kind, conversation, chunk)
