"""Clusters and Sluices that all integration tests share; each is started once, by the first test that needs it.

`way_one` and `way_three` run a test twice: straight to the brokers, and through Sluice. Without a
Kafka the tests are skipped with the reason; with SLUICE_REQUIRE_KAFKA=1 (CI) that is a failure.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import EveryListener
from tests.support.kafka.kafka_sasl import (
    OAUTH,
    PLAIN,
    SCRAM_256,
    SCRAM_512,
    SaslListener,
    usual_users,
)
from tests.support.kafka.kerberos import Kerberos, kerberos_is_missing
from tests.support.kafka.one_kafka import java, kafka_one, running, topics_one, work  # noqa: F401 - fixtures
from tests.support.kafka.security_setups import (
    CANARY,
    CAROL,
    LIFETIME_MS,
    SLUICE,
    Files,
    write_users,
)
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.releases import helm, namespace, plane  # noqa: F401 - fixtures
from tests.support.pages.browser import PATIENCE_MS, WIDE, Complaints, NoBrowserError, chromium
from tests.support.pages.dashboard_feed import DashboardFeed
from tests.support.plugins.witness import Witnessed, install
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.quotas.quota_setup import quota_users
from tests.support.shell.certificates import Authority

Open = Callable[..., Page]
Serve = Callable[..., DashboardFeed]
ONLY_THROUGH_SLUICE = pytest.mark.parametrize("way_three", ["sluice"], indirect=True)
"""For a test whose expectation needs no comparison: that it also holds without Sluice is Kafka's own business."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return one browser for all tests."""
    try:
        with chromium() as running:
            yield running
    except NoBrowserError as error:
        pytest.skip(f"no browser here: {error}")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a feed; feeds end after the pages that read them."""
    with ExitStack() as stack:

        def served(connections: int, **more: Any) -> DashboardFeed:
            return stack.enter_context(DashboardFeed(connections, **more))

        yield served


@pytest.fixture
def open_page(browser: Browser, serve: Serve) -> Iterator[Open]:
    """Return a function that opens the dashboard of a feed; at the end its page must have no complaints."""
    watched: list[Complaints] = []
    contexts = []

    def opened(
        address: str, size: ViewportSize = WIDE, scheme: str = "light", awaited: str = "serving"
    ) -> Page:
        context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        watched.append(Complaints(page, address.partition("#")[0]))
        page.goto(address)
        page.locator("#mode", has_text=awaited).wait_for()
        return page

    yield opened
    said = [line for complaints in watched for line in complaints.said]
    for context in contexts:
        context.close()
    assert not said


@dataclass(frozen=True, slots=True)
class Way:
    """The way from a test to a cluster: `name` is `direct` or `sluice`."""

    name: str
    bootstrap: str
    topics: Topics

    @property
    def is_direct(self) -> bool:
        """Return whether the test runs without Sluice."""
        return self.name == "direct"


@pytest.fixture(scope="session")
def kafka_three(java: Java, work: Path) -> Iterator[KafkaCluster]:
    """Three brokers; their SASL listeners serve tests that need users on three."""
    yield from running(KafkaCluster(work / "three", 3, 10, java, SaslListener(quota_users())))


@pytest.fixture(scope="session")
def kafka_sasl(java: Java, work: Path) -> Iterator[KafkaCluster]:
    """One broker with a second listener for SASL; by SCRAM-SHA-512 a client can authenticate only once."""
    lifetimes_ms = {PLAIN: 3_600_000, SCRAM_256: 6_000}
    listener = SaslListener(usual_users() | quota_users(), lifetimes_ms)
    yield from running(KafkaCluster(work / "sasl", 1, 14, java, listener))


@pytest.fixture(scope="session")
def authority(work: Path) -> Authority:
    """The authority of all certificates."""
    return Authority(work / "certificates")


@pytest.fixture(scope="session")
def security_files(authority: Authority, work: Path) -> Files:
    """Certificates for Sluice and for a client, and a users file; `directory` is for a test to replace."""
    write_users(work / "users", usual_users())
    return Files(
        authority.ca_file,
        authority.issue("127.0.0.1", "localhost", common_name="proxy", file_name="proxy"),
        authority.issue("sluice.test", common_name=SLUICE[0]),
        authority.issue("carol.test", common_name=CAROL),
        work / "users",
        work,
    )


@pytest.fixture(scope="session")
def kerberos(work: Path) -> Iterator[Kerberos | None]:
    """A realm of Kerberos; None where its tools are not installed."""
    if kerberos_is_missing():
        yield None
        return
    with Kerberos(work / "kerberos") as realm:
        yield realm


@pytest.fixture(scope="session")
def kafka_secure(
    java: Java, authority: Authority, kerberos: Kerberos | None, work: Path
) -> Iterator[KafkaCluster]:
    """One broker with a listener for every security protocol; two mechanisms' sessions end soon (KIP-368)."""
    lifetimes_ms = {SCRAM_512: LIFETIME_MS, OAUTH: LIFETIME_MS}
    listener = SaslListener(usual_users() | dict([SLUICE, CANARY]), lifetimes_ms)
    if kerberos is not None:
        java = replace(java, options=kerberos.java_options)
    listeners = EveryListener(authority, listener, kerberos)
    yield from running(KafkaCluster(work / "secure", 1, 16, java, listeners))


@pytest.fixture(scope="session")
def sluice_one(kafka_one: KafkaCluster, work: Path) -> Iterator[SluiceProcess]:
    """Sluice before the one broker."""
    with SluiceProcess(kafka_one.bootstrap, work / "sluice-one") as sluice:
        yield sluice


@pytest.fixture(scope="session")
def sluice_three(kafka_three: KafkaCluster, work: Path) -> Iterator[SluiceProcess]:
    """Sluice before the three brokers."""
    with SluiceProcess(kafka_three.bootstrap, work / "sluice-three") as sluice:
        yield sluice


@pytest.fixture(scope="session")
def sluice_sasl(kafka_sasl: KafkaCluster, work: Path) -> Iterator[Witnessed]:
    """Sluice before the SASL listener, with a witness in its chain."""
    directory = work / "sluice-sasl"
    variables, seen = install(directory)
    with SluiceProcess(kafka_sasl.sasl_bootstrap, directory, variables=variables) as sluice:
        yield Witnessed(sluice, seen)


@pytest.fixture(scope="session")
def topics_three(kafka_three: KafkaCluster) -> Topics:
    """Topics of the three brokers, on all three."""
    return Topics(kafka_three.bootstrap, 3)


@pytest.fixture(params=["direct", "sluice"])
def way_one(request: pytest.FixtureRequest, kafka_one: KafkaCluster, topics_one: Topics) -> Way:
    """The one broker, both ways."""
    if request.param == "direct":
        return Way("direct", kafka_one.bootstrap, topics_one)
    return Way("sluice", request.getfixturevalue("sluice_one").bootstrap, topics_one)


@pytest.fixture(params=["direct", "sluice"])
def way_three(
    request: pytest.FixtureRequest, kafka_three: KafkaCluster, topics_three: Topics
) -> Way:
    """The three brokers, both ways."""
    if request.param == "direct":
        return Way("direct", kafka_three.bootstrap, topics_three)
    return Way("sluice", request.getfixturevalue("sluice_three").bootstrap, topics_three)
