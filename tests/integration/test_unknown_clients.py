"""Clients that are not known yet, before a real Kafka to which Sluice authenticates itself: they cost no connection."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka import KafkaConsumer, KafkaProducer

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import PLAIN, SCRAM_256
from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.messages import frames as f
from tests.support.processes.command_line import invoke
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.sockets import receive

CROWD: Final = 200
ESTABLISHED: Final = "01"


def connections_to(pid: int, port: int) -> int:
    """Return how many connections this process has to this port."""
    own = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(each.readlink().name)
        except OSError:
            continue
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return sum(
        f"socket:[{row[9]}]" in own
        and row[3] == ESTABLISHED
        and int(row[2].rpartition(":")[2], 16) == port
        for row in rows
    )


@contextmanager
def most_connections_to(pid: int, port: int) -> Iterator[list[int]]:
    """Look again and again while the block runs; the list has all figures."""
    seen: list[int] = []
    ending = threading.Event()

    def look() -> None:
        while not ending.wait(0.005):
            seen.append(connections_to(pid, port))

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield seen
    finally:
        ending.set()
        looker.join()


def test_clients_that_have_not_logged_in_cost_the_broker_no_connection(
    kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """Silent ones, half requests, and ones that ask for ApiVersions; then one that logs in is served."""
    users, secret, own = tmp_path / "users", tmp_path / "secret", tmp_path / "own"
    secret.write_text("bob-secret")
    own.write_text("alice-secret\n")
    added = invoke("users", "add", "bob", "--file", users, "--password-file", secret)
    assert added.exit_code == 0, added.output
    sluice = SluiceProcess(
        kafka_sasl.sasl_bootstrap,
        tmp_path / "sluice",
        listen_settings={"sasl": {"users_file": str(users), "mechanisms": [PLAIN]}},
        upstream_settings={
            "sasl": {"mechanism": SCRAM_256, "username": "alice", "password_file": str(own)}
        },
    )
    broker_port = int(kafka_sasl.sasl_bootstrap.rpartition(":")[2])
    asked = f.request(f.API_VERSIONS, 0, 7)
    crowd: list[socket.socket] = []
    with sluice:
        assert sluice.pid is not None
        with most_connections_to(sluice.pid, broker_port) as seen:
            for sent in (b"", asked[:-1], asked):
                for _ in range(CROWD):
                    client = socket.create_connection(("127.0.0.1", sluice.port), 60)
                    client.sendall(sent)
                    crowd.append(client)
            answers = {receive(client, 100) for client in crowd[2 * CROWD :]}
            assert len(answers) == 1
            await_that(lambda: seen and seen[-1] == 0, "the end of the question")
        assert max(seen) <= 1
        topic = Topics(kafka_sasl.bootstrap, 1).make()
        login = {
            "bootstrap_servers": sluice.bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": PLAIN,
            "sasl_plain_username": "bob",
            "sasl_plain_password": "bob-secret",
        }
        producer = KafkaProducer(**login)
        producer.send(topic, b"one").get(30)
        assert connections_to(sluice.pid, broker_port) >= 1
        producer.close()
        reader = KafkaConsumer(topic, auto_offset_reset="earliest", **login)
        assert next(reader).value == b"one"
        reader.close()
    for client in crowd:
        client.close()
