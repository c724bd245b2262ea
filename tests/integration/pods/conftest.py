"""A node for pods, a broker that they reach, and the image. Without root or a tool, the tests skip with the reason."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.image import ImageUnavailableError, built_image
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.oci_config import Image, Mount
from tests.support.kubernetes.pod_figures import PodFigures
from tests.support.kubernetes.pod_network import NodeNetwork
from tests.support.kubernetes.runc import RuncUnavailableError, require_runc
from tests.support.kubernetes.sidecar_pods import SLUICE_IMAGE, Pods

CHECKOUT: Final = Path(__file__).resolve().parents[3]
_SYSTEM: Final = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr")


def host_image(directory: Path) -> Image:
    """Return the image; its root is made below `directory`."""
    root = directory / "root"
    root.mkdir(parents=True)
    cache = (CHECKOUT / ".cache").resolve()  # may be a link to that of another checkout
    folders = [Path(sys.base_prefix), Path(sys.prefix), CHECKOUT, cache]
    for entry in (Path("/", name) for name in _SYSTEM):
        if entry.is_symlink():
            (root / entry.name).symlink_to(entry.readlink())
        elif entry.is_dir():
            folders.insert(0, entry)
    return Image(
        root,
        environ={"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        directory=str(CHECKOUT),
        mounts=[Mount(folder, str(folder)) for folder in folders],
    )


@pytest.fixture(scope="session")
def node() -> Iterator[NodeNetwork]:
    """The network of a node that runs pods."""
    with ExitStack() as stack:
        try:
            require_runc()
            network = stack.enter_context(NodeNetwork())
        except RuncUnavailableError as error:
            pytest.skip(f"no containers here: {error}")
        yield network


@pytest.fixture(scope="session")
def image() -> Image:
    """The image of Sluice."""
    try:
        built = built_image()
    except ImageUnavailableError as error:
        pytest.skip(f"no image here: {error}")
    return Image(
        built.root, built.entrypoint, built.command, built.environ, built.directory, built.user
    )


@pytest.fixture(scope="session")
def kafka(node: NodeNetwork, image: Image, java: Java, work: Path) -> Iterator[KafkaCluster]:
    """One broker, at the node's address."""
    prefix, _, network = node.prefix.rpartition(".")
    cluster = KafkaCluster(work / "for-pods", 1, int(network), java, prefix=prefix)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def topics(kafka: KafkaCluster) -> Iterator[Topics]:
    """Topics of the broker."""
    made = Topics(kafka.bootstrap, 1)
    yield made
    del made._admin  # its connections end before the node's network does


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Iterator[PodFigures]:
    """The figures of the tests; `make bench-pod` writes them down if all tests pass."""
    found = PodFigures()
    yield found
    if not request.session.testsfailed:
        found.write()


@pytest.fixture
def pods(
    node: NodeNetwork, image: Image, kafka: KafkaCluster, java: Java, tmp_path: Path
) -> Iterator[Pods]:
    """Runs applications with the sidecar; everything has ended after the test."""
    images = {"application": host_image(tmp_path / "application"), SLUICE_IMAGE: image}
    with Kubelet(tmp_path / "pods", node, images) as kubelet:
        yield Pods(kubelet, tmp_path, kafka.bootstrap, java, sys.executable)
