"""The memory limit and the config map that a pod hands to its sidecar.

The chart's own manifests and the real image, run as a kubelet does, before a real Kafka.
"""

import re
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.image import IMAGE_TIMEOUT_SECONDS
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_figures import PodFigures
from tests.support.kubernetes.pod_spec import bytes_of
from tests.support.kubernetes.sidecar_pods import (
    PYTHON,
    SLUICE,
    Pods,
    await_acks,
    check_nothing_lost,
    connections,
    end,
    lines,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

PARTITIONS = 3
ADMIN_PORT = 9644
LIMITS = ("128Mi", "256Mi", "512Mi", "1Gi")


def throttles(pod: Pod) -> float:
    """Return how many requests the sidecar has throttled."""
    with urllib.request.urlopen(f"http://{pod.facts.address}:{ADMIN_PORT}/metrics") as page:
        text = page.read().decode()
    found = re.findall(r"^sluice_user_throttled_requests_total\S* (\S+)", text, re.MULTILINE)
    return sum(map(float, found))


def test_the_pools_are_sized_by_the_limit_of_the_container(
    pods: Pods, topics: Topics, figures: PodFigures
) -> None:
    """The limit is handed over by the downward API; the pools and the most that Sluice uses fit it."""
    producer = pods.python_producer(topics.make(PARTITIONS))
    running = {
        limit: pods.run(
            f"size-{limit}".lower(),
            producer,
            sluice={"resources": {"limits": {"memory": limit}, "requests": {"memory": "96Mi"}}},
        )
        for limit in LIMITS
    }
    pools = []
    for limit, pod in running.items():
        pod.await_ready()
        await_acks(pod, PYTHON, 300)
        sluice, limit_bytes = pod.container(SLUICE).current, bytes_of(limit)
        (budget,) = lines(sluice, "memory_budget")
        environ = Path(f"/proc/{sluice.pid}/environ").read_text().split("\0")
        assert f"SLUICE_MEMORY_LIMIT_BYTES={limit_bytes}" in environ
        assert budget["limit_bytes"] == limit_bytes
        assert budget["max_bytes"] < limit_bytes
        pools.append(budget["requests_bytes"])
        figures.size(limit, budget, sluice.resident_bytes())
    assert pools == sorted(set(pools)), pools


def test_an_updated_config_map_is_applied_live(
    pods: Pods, topics: Topics, figures: PodFigures
) -> None:
    """The kubelet swaps the volume's link: the new quota throttles, and every connection stays."""
    topic = topics.make(PARTITIONS)
    producer = pods.python_producer(topic)
    pod = pods.run("reload", producer)
    pod.await_ready()
    await_acks(pod, PYTHON, 100)
    before, sluice = connections(pod), pod.container(SLUICE).current
    quota = {"use": "quota", "config": {"quotas": [{"client_id": "<default>", "request_rate": 5}]}}
    pods.apply("reload", [producer], values={"sluice": {"config": {"policies": [quota]}}})
    swapped_s = time.time()
    pods.kubelet.update_volumes()
    await_that(lambda: bool(lines(sluice, "config_reloaded")), "the reload", 60, pod.said)
    reload_s = f"{time.time() - swapped_s:.1f} s"
    figures.add("config map updated", "swap of the volume to the reload", reload_s)
    await_that(lambda: throttles(pod) > 0, "a throttle", 60, pod.said)
    assert connections(pod) == before, "a client had to connect again"
    end(pod)
    check_nothing_lost(pod, PYTHON, topics, topic)
