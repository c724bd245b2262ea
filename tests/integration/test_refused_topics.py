"""the page of refusals has what the users of four client libraries see, with a real Kafka."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.kafka.franz_go import FranzUnavailableError, franz_program
from tests.support.kafka.java import kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.refused_clients import (
    NOTHING,
    Show,
    franz_client,
    java_client,
    kafka_python,
    librdkafka,
)
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess

ROOT = Path(__file__).parents[2]
AT_ONCE = 4
SOON_SECONDS, LATE_SECONDS = 4, 60
"""An error that the page names may take long on a busy machine; that none comes is looked at for a short time."""


def stated() -> dict[tuple[str, str, str], str]:
    """Return what the page says a library shows, by API, code and library."""
    page = (ROOT / "docs" / "refusals.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| ([\w-]+) \| (.*) \|$", page, re.MULTILINE)
    return {(api, code, library): shown.strip("`") for api, code, library, shown in rows}


def shower(library: str, folder: Path) -> Show:
    """Return the function that shows what this library's user sees; skip the test without its program."""
    if library == "Java":
        return java_client(kafka_java(), folder)
    if library == "franz-go":
        try:
            return franz_client(franz_program())
        except FranzUnavailableError as error:
            pytest.skip(str(error))
    return {"kafka-python": kafka_python, "librdkafka": librdkafka}[library]


@pytest.mark.parametrize(
    "library",
    [
        "kafka-python",
        "librdkafka",
        pytest.param("Java", marks=pytest.mark.slow),
        pytest.param("franz-go", marks=pytest.mark.slow),
    ],
)
def test_each_library_shows_what_the_page_says(
    library: str, kafka_one: KafkaCluster, tmp_path: Path
) -> None:
    """For each API and code: the exception of kafka-python and Java, the code of the others, or none."""
    show = shower(library, tmp_path)
    topic = Topics(kafka_one.bootstrap, 1).make()
    expected = {case: shown for case, shown in stated().items() if case[2] == library}
    variables = {
        "SLUICE_POLICIES": "[{use: 'tests.support.plugins.refuser:Refuser'}]",
        "PYTHONPATH": str(ROOT),
    }
    with (
        SluiceProcess(kafka_one.bootstrap, tmp_path / "sluice", variables=variables) as sluice,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        found = {
            (api, code, library): pool.submit(
                show, api, sluice.bootstrap, topic, f"{api}.{code}",
                SOON_SECONDS if shown == NOTHING else LATE_SECONDS,
            )
            for (api, code, library), shown in expected.items()
        }  # fmt: skip

    assert len(expected) == 9
    assert {case: each.result() for case, each in found.items()} == expected
