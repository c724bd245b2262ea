"""Three client libraries through every claimed combination of TLS and SASL, on both sides of Sluice.

Each writes and reads records; Sluice and the broker see the user that they should. The table in
The table in docs/use/security.md is written here: `SLUICE_WRITE_TABLES=1` replaces it by what this run has seen.
"""

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import (
    ALICE,
    BEGIN,
    END,
    NONE,
    SETUPS,
    Files,
    SetUp,
    table,
)
from tests.support.kafka.three_libraries import LIBRARIES, move
from tests.support.kafka.topics import Topics
from tests.support.messages.sasl import plain
from tests.support.plugins.witness import Sightings, install
from tests.support.processes.sluice_process import SluiceProcess

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "use" / "security.md"
BEFORE_A_NAME: Final = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
worked: dict[SetUp, None] = {}
"""The set-ups that this run has seen work."""


class Running(NamedTuple):
    """A Sluice in one set-up."""

    setup: SetUp
    sluice: SluiceProcess
    seen: Sightings
    files: Files


@pytest.fixture(params=SETUPS, ids=lambda setup: setup.name)
def running(
    request: pytest.FixtureRequest,
    kafka_secure: KafkaCluster,
    security_files: Files,
    tmp_path: Path,
) -> Iterator[Running]:
    """Each set-up in turn."""
    setup: SetUp = request.param
    variables, seen = install(tmp_path)
    with setup.sluice(kafka_secure, security_files, tmp_path, variables) as sluice:
        yield Running(setup, sluice, seen, security_files)


@pytest.fixture(scope="module")
def topics(kafka_secure: KafkaCluster) -> Topics:
    """Topics by the listener without authentication."""
    return Topics(kafka_secure.bootstrap, 1)


@pytest.mark.slow
def test_every_client_gets_through_every_combination(
    running: Running, java: Java, topics: Topics, tmp_path: Path
) -> None:
    """Each library writes and reads its records, Sluice sees its user, and the broker sees the user it should."""
    setup, files = running.setup, running.files
    with ThreadPoolExecutor(len(LIBRARIES)) as pool:
        moved = [
            pool.submit(
                move,
                library,
                java,
                running.sluice.bootstrap,
                topics.make(),
                setup.security(mechanism, files),
                tmp_path,
            )
            for library, mechanism in zip(LIBRARIES, setup.mechanisms, strict=True)
        ]
        client_ids = [each.result() for each in moved]

    for client_id, mechanism in zip(client_ids, setup.mechanisms, strict=True):
        seen = running.seen.of_client(client_id)
        assert {"Produce", "Fetch"} <= {each.api for each in seen}
        spoken = {each.principal for each in seen if each.api not in BEFORE_A_NAME}
        assert spoken == {setup.principal(mechanism)}
    assert owner_at_the_broker(running) == setup.owner
    worked[setup] = None


def owner_at_the_broker(running: Running) -> str | None:
    """Return the broker's name for a client that goes through this Sluice."""
    setup, files = running.setup, running.files
    with Talk(running.sluice.port, context=setup.context(files)) as talk:
        if setup.login != NONE:
            answer = talk.plain(plain(*ALICE))
            assert answer is not None
            assert not answer.error_code
        token = talk.who()
    return None if token is None else token.owner


def test_the_table_shows_what_worked() -> None:
    """The table in the document has a row for each set-up; a run of all of them writes it."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    shown, _, after = rest.partition(END)
    if os.environ.get("SLUICE_WRITE_TABLES") == "1":
        assert len(worked) == len(SETUPS), "not all set-ups have worked in this run"
        PAGE.write_text(f"{before}{table([*worked])}{after}", "utf-8")
        return

    assert f"{BEGIN}{shown}{END}" == table(SETUPS)


def test_the_set_ups_cover_the_pairs() -> None:
    """Client sides with broker sides, libraries with mechanisms, and Sluice's own mechanisms with SASL listeners."""
    listens = {each.listen for each in SETUPS}
    upstreams = {each.upstream for each in SETUPS}
    assert {(each.listen, each.upstream) for each in SETUPS} == set(
        itertools.product(listens, upstreams)
    )
    assert len(listens) * len(upstreams) == 15
    assert len({(each.listen, each.login) for each in SETUPS}) == 9
    spoken = {
        (each.login, library, mechanism)
        for each in SETUPS
        for library, mechanism in zip(LIBRARIES, each.mechanisms, strict=True)
        if mechanism
    }
    assert len(spoken) == len(LIBRARIES) * (4 + 3)
    assert len({(each.upstream, each.custody) for each in SETUPS if each.custody}) == 2 * 4
