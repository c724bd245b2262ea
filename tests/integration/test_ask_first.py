"""The example ask_first before a real Kafka: requests wait for another service, and one that hangs delays no end."""

import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic
from kafka.errors import PolicyViolationError

from bench.harness.ports import free_ports
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.processes.sluice_process import SluiceProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "ask_first"
LONG_SECONDS = 60


@dataclass
class RightsService:
    """Answers `status` to each question while `gate` is set; else it lets the caller wait."""

    url: str = ""
    status: int = 200
    questions: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)


@contextmanager
def rights_service() -> Iterator[RightsService]:
    """Serve on a loopback port."""
    service = RightsService()

    class Handler(BaseHTTPRequestHandler):
        """Answers GET."""

        def do_GET(self) -> None:
            """Answer when the gate is open."""
            service.questions.append(self.path)
            service.gate.wait()
            self.send_response(service.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        service.url = f"http://127.0.0.1:{server.server_address[1]}/topics?user="
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            service.gate.set()
            server.shutdown()
            thread.join()


def by_librdkafka(bootstrap: str, topic: str) -> str:
    """Create a topic; return "" or the error's name."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(timeout=LONG_SECONDS)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def by_kafka_python(bootstrap: str, topic: str) -> str:
    """As above."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=LONG_SECONDS * 1000)
    try:
        admin.create_topics([PythonNewTopic(topic, 1, 1)])
    except PolicyViolationError:
        return "POLICY_VIOLATION"
    finally:
        admin.close()
    return ""


def await_count(listen: str, **results: int) -> None:
    """Wait until the example's counter has these values; a page of metrics is kept for a second."""
    expected = {
        f'sluice_custom_rights_lookups_total{{policy="rights",result="{result}"}} {count}.0'
        for result, count in results.items()
    }

    def lookups() -> set[str]:
        with urllib.request.urlopen(f"http://{listen}/metrics") as page:
            lines: list[str] = page.read().decode().splitlines()
        return {line for line in lines if line.startswith("sluice_custom_rights_lookups_total")}

    await_that(lambda: lookups() == expected, "the counter")


def test_requests_wait_for_the_answer_of_a_service(kafka_one: KafkaCluster, tmp_path: Path) -> None:
    """They are held while the service is silent, then done or refused as it says. The counter survives a reload.

    A drain ends the wait of a request, and the end of the process does not wait for the thread.
    """
    listen = f"127.0.0.1:{free_ports()}"
    with rights_service() as rights, ThreadPoolExecutor(2) as pool:
        policy: dict[str, Any] = {
            "use": "ask_first:AskFirst",
            "name": "rights",
            "on_error": "close",
            "config": {"url": rights.url},
        }
        sluice = SluiceProcess(
            kafka_one.bootstrap,
            tmp_path / "sluice",
            variables={"PYTHONPATH": str(EXAMPLE)},
            settings={
                "identity": {"user": "al ice"},
                "admin": {"listen": listen},
                "policies": [policy],
            },
        )

        def reload(on_error: str) -> None:
            """Make the policy again, so that it asks again."""
            before = sluice.said().count("config_reloaded")
            sluice.reload(policies=[{**policy, "on_error": on_error}])
            await_that(lambda: sluice.said().count("config_reloaded") > before, "the reload")

        with sluice:
            creating = [
                pool.submit(create, sluice.bootstrap, f"{create.__name__}-{tmp_path.name}")
                for create in (by_librdkafka, by_kafka_python)
            ]
            await_that(lambda: rights.questions, "the question")
            assert not any(each.done() for each in creating)
            rights.gate.set()
            assert [each.result() for each in creating] == ["", ""]
            assert rights.questions == ["/topics?user=al%20ice"]
            await_count(listen, allowed=1)

            rights.status = 403
            reload("forward")
            assert by_librdkafka(sluice.bootstrap, "never") == "POLICY_VIOLATION"
            assert by_kafka_python(sluice.bootstrap, "never") == "POLICY_VIOLATION"
            await_count(listen, allowed=1, refused=1)

            rights.gate.clear()
            reload("close")
            waiting = pool.submit(by_librdkafka, sluice.bootstrap, "never")
            await_that(lambda: len(rights.questions) == 3, "the third question")
            began = time.monotonic()
        assert time.monotonic() - began < LONG_SECONDS  # the gate is still closed
        assert waiting.result() == "POLICY_VIOLATION"
