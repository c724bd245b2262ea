"""Kafka Streams before `access`, by both group protocols: refused with Kafka's own exceptions, then allowed.

It needs a JDK, and fetches the jars of Kafka Streams.
"""

import itertools
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pipeline.jars import JarsUnavailableError, provide_jars
from tests.support.access.real_clients import SECURITY, Guarded, Rule
from tests.support.kafka.kafka_jars import CACHE, KAFKA_LOCK, KAFKA_VERSION, LOCKS
from tests.support.kafka.one_kafka import since
from tests.support.kafka.verifiable import config_file

SOURCE: Final = Path(__file__).parents[2] / "support" / "access" / "streams" / "Enricher.java"
LOCK: Final = LOCKS / f"streams-{KAFKA_VERSION}.lock"
RUN_SECONDS: Final = 120
INPUT, OUTPUT = "orders", "orders.rich"
RULE: Final[Rule] = {
    "topics": {
        INPUT: ["read"],
        OUTPUT: ["write"],
        "enricher-*": ["read", "write", "create", "delete"],
    },
    "groups": {"enricher-*": ["read"]},
    "transactions": {"enricher-*": ["write"]},
}
"""The example of the documents."""
_ENDED: Final = re.compile(r"ended by org\.apache\.kafka\.common\.errors\.(\w+)")

pytestmark = [
    since(4, 4),
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK here"),
]


@pytest.fixture(scope="module")
def streams_jars() -> Path:
    """Return the folder of the jars of Kafka and of Kafka Streams."""
    folder = CACHE / LOCK.stem
    try:
        provide_jars(KAFKA_LOCK.read_text() + LOCK.read_text(), folder)
    except JarsUnavailableError as error:
        pytest.skip(str(error))
    return folder


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_an_application_runs_with_the_rights_of_the_example_and_not_without(
    guarded: Guarded, streams_jars: Path, tmp_path: Path, protocol: str
) -> None:
    """Without its group, its input or its own topics, it ends with the exception that says so."""
    serial = itertools.count(1)

    def told(*rules: Rule) -> str:
        guarded.allow(*rules)
        config = {
            **SECURITY.java(),
            "bootstrap.servers": guarded.bootstrap,
            "application.id": f"enricher-{protocol}-{next(serial)}",  # none waits for members that ended
            "state.dir": str(tmp_path / "state"),
            "processing.guarantee": "exactly_once_v2",
            "replication.factor": "1",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "commit.interval.ms": "100",
        }
        file = config_file(tmp_path / "streams.properties", config)
        command = ["java", "-cp", f"{streams_jars}/*", str(SOURCE), file, INPUT, OUTPUT]
        output = tmp_path / "said"
        with output.open("w") as said, suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdout=said, stderr=said, timeout=RUN_SECONDS, check=False)
        found = _ENDED.findall(output.read_text())
        return found[-1] if found else output.read_text()[-1500:]

    topics, groups, transactions = (
        {key: RULE[key]} for key in ("topics", "groups", "transactions")
    )
    assert told(topics, transactions) == "GroupAuthorizationException"
    assert told(topics, groups) == "TransactionalIdAuthorizationException"
    foreign = {key: RULE["topics"][key] for key in (OUTPUT, "enricher-*")}
    assert told({"topics": foreign}, groups, transactions) == "TopicAuthorizationException"
    assert "counted" in told(RULE)
