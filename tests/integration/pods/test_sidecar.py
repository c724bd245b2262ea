"""The start and the end of a pod: the application starts after the sidecar and ends before it.

The chart's own manifests and the real image, run as a kubelet does, before a real Kafka. Records are read from the
broker, never through Sluice.
"""

import signal
import time

import pytest

from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.kubernetes.image import IMAGE_TIMEOUT_SECONDS
from tests.support.kubernetes.pod import Pod
from tests.support.kubernetes.pod_figures import PodFigures
from tests.support.kubernetes.sidecar_pods import (
    JAVA,
    PORT,
    PYTHON,
    SLUICE,
    Pods,
    acked,
    check_nothing_lost,
    connections,
    end,
    lines,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

PARTITIONS = 3
LINGER_MS = 60_000
"""Longer than a test: records wait for the final flush."""
NODE_PORT = PORT + 1 + 1
"""Of broker 1."""


def test_the_order_of_start_and_end_loses_nothing(
    pods: Pods, topics: Topics, figures: PodFigures
) -> None:
    """The application's first connects are all accepted, and its final flush after SIGTERM reaches the broker."""
    java_topic, python_topic = topics.make(PARTITIONS), topics.make(PARTITIONS)
    waiting = {"linger.ms": str(LINGER_MS), "batch.size": "1000000"}
    pod = pods.run(
        "flush",
        pods.java_producer(java_topic, **waiting),
        pods.python_producer(python_topic, linger_ms=LINGER_MS, ports=[PORT, NODE_PORT]),
    )
    pod.await_ready()
    python, java = pod.container(PYTHON), pod.container(JAVA)
    await_that(lambda: bool(lines(java.current, "startup_complete")), "Java's start", 60, pod.said)
    await_that(lambda: bool(lines(python.current, "connected")), "the connects", 60, pod.said)
    await_that(lambda: len(connections(pod)) >= 2, "both producers' connections", 60, pod.said)
    time.sleep(2)  # some hundred records wait
    end(pod)

    (connected,) = lines(python.current, "connected")
    assert connected["refused"] == 0, connected
    assert (java.codes, python.codes) == ([128 + signal.SIGTERM], [0]), pod.said()
    assert pod.container(SLUICE).codes == [0], pod.said()
    assert ended_of(pod, JAVA, PYTHON) < pod.time_of(SLUICE, "SIGTERM")
    (flushing,) = lines(python.current, "flushing")
    assert flushing["queued"] > 0, "the flush had nothing to do"
    total = 0
    for container, topic in ((java, java_topic), (python, python_topic)):
        (sums,) = lines(container.current, "tool_data")
        told = acked(container.current)
        assert sums["sent"] == len(told) > 0, sums
        assert check_nothing_lost(pod, container.name, topics, topic) == told
        total += sums["sent"]
    started_s = pod.time_of(SLUICE, "startup probe succeeded") - pod.time_of(SLUICE, "started")
    figures.start(started_s, connected)
    figures.flush(total, pod.time_of(SLUICE, "ended") - pod.time_of(SLUICE, "SIGTERM"))


def test_a_plain_container_before_kubernetes_1_29(
    pods: Pods, topics: Topics, figures: PodFigures
) -> None:
    """Without native sidecars there is no order: the pod works, an ack still holds, and the cost is measured."""
    topic = topics.make(PARTITIONS)
    pod = pods.run(
        "plain",
        pods.python_producer(topic, linger_ms=LINGER_MS, flush_s=5, ports=[PORT, NODE_PORT]),
        kube_version="1.28.0",
    )
    pod.await_ready()
    python = pod.container(PYTHON)
    await_that(lambda: bool(lines(python.current, "connected")), "the connects", 60, pod.said)
    await_that(lambda: len(connections(pod)) >= 1, "the producer's connection", 60, pod.said)
    time.sleep(2)
    end(pod)
    (connected,) = lines(python.current, "connected")
    (sums,) = lines(python.current, "tool_data")
    told = {event["value"] for event in lines(python.current, "producer_send_success")}
    stored = {record.value.decode() for record in topics.contents(topic)}
    assert told <= stored, "acked, but lost"
    done = "plain container (Kubernetes < 1.29), the same"
    refused = f"{connected['refused']} of {connected['attempts']}"
    figures.add(done, "first connects of the application that were refused", refused)
    failed = f"{sums['sent'] - len(told):,} of {sums['sent']:,}"
    figures.add(
        done, "records of the final flush that failed in this run: none or all, by chance", failed
    )


def ended_of(pod: Pod, *names: str) -> float:
    """Return when the last of these containers had ended."""
    return max(pod.time_of(name, "ended") for name in names)
