"""The sidecar alone ends, in each of the ways that it can, and comes back under a live application.

The chart's own manifests and the real image, run as a kubelet does, before a real Kafka. Records are read from the
broker, never through Sluice.
"""

import os
import signal
import subprocess
import sys

import pytest

from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.image import IMAGE_TIMEOUT_SECONDS
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_figures import PodFigures
from tests.support.kubernetes.sidecar_pods import (
    JAVA,
    PYTHON,
    SLUICE,
    Pods,
    ack_times_s,
    await_acks,
    check_nothing_lost,
    end,
    listening,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

PARTITIONS = 3
BROKEN = "broken by the test"


def start(pods: Pods, topics: Topics, name: str, **values: object) -> tuple[Pod, dict[str, str]]:
    """Return a pod with a producer of each kind under load, and their topics."""
    written = {JAVA: topics.make(PARTITIONS), PYTHON: topics.make(PARTITIONS)}
    pod = pods.run(
        name, pods.java_producer(written[JAVA]), pods.python_producer(written[PYTHON]), **values
    )
    pod.await_ready()
    await_acks(pod, JAVA, 300)
    pod.note(SLUICE, BROKEN)
    return pod, written


def check_the_return(pod: Pod, why: str, figures: PodFigures) -> None:
    """Wait for the sidecar's next start and for acks of both producers, which were not restarted."""
    await_that(
        lambda: pod.has_happened(SLUICE, "startup probe succeeded", 2), "its return", 60, pod.said
    )
    for name in (JAVA, PYTHON):
        await_acks(pod, name, 100)
        assert len(pod.container(name).runs) == 1, pod.said()
        back_s = pod.time_of(SLUICE, "started")
        acks_s = ack_times_s(pod.container(name).current)
        first_s = min(each for each in acks_s if each > back_s)
        figures.back(why, name, first_s - pod.time_of(SLUICE, BROKEN))


def check_the_end(pod: Pod, topics: Topics, written: dict[str, str]) -> None:
    """End the pod: its sidecar was killed once and then ended by itself, and no record is lost or there twice."""
    end(pod)
    assert pod.container(SLUICE).codes == [128 + signal.SIGKILL, 0], pod.said()
    for name, topic in written.items():
        check_nothing_lost(pod, name, topics, topic)


def test_a_killed_sidecar_comes_back_with_the_same_ports(
    pods: Pods, topics: Topics, figures: PodFigures
) -> None:
    """SIGKILL: the application is not restarted, and its producers continue with the addresses that they know."""
    pod, written = start(pods, topics, "killed")
    before = listening(pod)
    os.kill(pod.container(SLUICE).current.pid, signal.SIGKILL)
    check_the_return(pod, "killed", figures)
    assert listening(pod) == before
    check_the_end(pod, topics, written)


def test_the_sidecar_alone_is_killed_for_lack_of_memory(
    pods: Pods, topics: Topics, figures: PodFigures
) -> None:
    """The kernel kills it at the limit of its container; the application's containers live."""
    pod, written = start(pods, topics, "memory")
    group = pod.container(SLUICE).current.memory_group
    hog = [sys.executable, "-m", "tests.support.processes.memory_hog", str(group)]
    hogged = subprocess.run(hog, check=False, timeout=60)
    pod.note(SLUICE, BROKEN)  # only now
    # It shares the limit: the kernel may kill it, too, before the memory of its first victim is free.
    assert hogged.returncode in (0, -signal.SIGKILL)
    check_the_return(pod, "out of memory", figures)
    check_the_end(pod, topics, written)


def test_a_sidecar_that_hangs_is_restarted(pods: Pods, topics: Topics, figures: PodFigures) -> None:
    """The liveness probe finds it: SIGTERM, SIGKILL at the end of the grace period, and a new start."""
    liveness = {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 3}
    sluice = {"probes": {"liveness": liveness}}
    pod, written = start(pods, topics, "hanging", graceSeconds=3, sluice=sluice)
    os.kill(pod.container(SLUICE).current.pid, signal.SIGSTOP)
    check_the_return(pod, "hangs (3 probes, one a second; grace period of 3 s)", figures)
    check_the_end(pod, topics, written)
