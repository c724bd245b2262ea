"""A real Apache Kafka (KRaft) of one or three brokers, started and stopped by a test.

Each broker listens on a loopback address of its own (`127.0.N.1`, `.2`, `.3`), so that a broker's address can be told
from Sluice's in any byte a client receives. Node 1 is the controller too. A broker is ready when its log says so.
With `listeners` each has further ones, for TLS or authentication; the brokers talk to each other by the plain one.

Stopping: brokers first, the controller last, because a broker's controlled shutdown waits for its controller. A broker
that does not end in time is killed. SIGTERM ends a broker with exit code 143.
"""

import base64
import re
import signal
import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from bench.harness.ports import free_ports
from bench.harness.processes import end, suspended
from tests.support.kafka.java import Java, kafka_java
from tests.support.kafka.kafka_sasl import LISTENER

START_TIMEOUT_SECONDS: Final = 300.0
STOP_TIMEOUT_SECONDS: Final = 120.0
_READY = b"Kafka Server started"
_CONFIG = """\
node.id={node_id}
process.roles={roles}
controller.quorum.voters=1@{controller}
controller.listener.names=CONTROLLER
listeners={listeners}
advertised.listeners={advertised}
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=4
auto.create.topics.enable=false
unclean.leader.election.enable=false
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=1000
group.share.min.heartbeat.interval.ms=500
group.share.heartbeat.interval.ms=1000
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=8388608
{secured}
{settings}
"""


class Listeners(Protocol):
    """Further listeners of every broker."""

    @property
    def protocols(self) -> dict[str, str]:
        """Listener name to security protocol."""
        ...

    def properties(self, host: str) -> Iterator[str]:
        """Yield the lines of the server.properties of the broker at `host`."""
        ...

    def format_arguments(self) -> Iterable[str]:
        """Return further arguments of `kafka-storage format`."""
        ...


@dataclass(slots=True)
class Broker:
    """One broker: its address, its files and, while it runs, its process."""

    node_id: int
    host: str
    port: int
    directory: Path
    further: dict[str, int] = field(default_factory=dict)
    """Listener name to port."""
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def address(self) -> str:
        """`host:port` as it is advertised."""
        return f"{self.host}:{self.port}"

    def address_of(self, listener: str) -> str:
        """Return `host:port` of one of the further listeners."""
        return f"{self.host}:{self.further[listener]}"

    @property
    def log(self) -> Path:
        """Return the broker's log since its last start."""
        return self.directory / f"broker-{self.starts}.log"

    @property
    def config(self) -> Path:
        """Its server.properties."""
        return self.directory / "server.properties"


@dataclass(slots=True)
class KafkaCluster:
    """A cluster below `directory`; `network` is the third byte of its brokers' addresses, `prefix` the first two.

    `settings` are further lines of every broker's properties; `heap` is the most a broker's Java may take for objects.
    """

    directory: Path
    size: int
    network: int
    java: Java = field(default_factory=kafka_java)
    listeners: Listeners | None = None
    settings: dict[str, str] = field(default_factory=dict)
    heap: str = "256m"
    prefix: str = "127.0"
    brokers: dict[int, Broker] = field(init=False)

    def __post_init__(self) -> None:
        self.brokers = {}
        for node_id in range(1, self.size + 1):
            host = f"{self.prefix}.{self.network}.{node_id}"
            home = self.directory / f"broker{node_id}"
            names = [] if self.listeners is None else list(self.listeners.protocols)
            port = free_ports(host, 1 + len(names))
            further = {name: port + 1 + place for place, name in enumerate(names)}
            self.brokers[node_id] = Broker(node_id, host, port, home, further)

    @property
    def bootstrap(self) -> str:
        """Every broker's address, comma-separated."""
        return ",".join(broker.address for broker in self.brokers.values())

    @property
    def sasl_bootstrap(self) -> str:
        """Return every broker's address for clients that authenticate without TLS, comma-separated."""
        return self.bootstrap_of(LISTENER)

    def bootstrap_of(self, listener: str) -> str:
        """Return every broker's address of one of the further listeners, comma-separated."""
        return ",".join(broker.address_of(listener) for broker in self.brokers.values())

    @property
    def address_prefix(self) -> bytes:
        """Return the prefix that exactly the brokers' addresses have."""
        return f"{self.prefix}.{self.network}.".encode()

    def start(self) -> None:
        """Formats and starts every broker and waits until all are ready."""
        self._write_configs()
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formats = [
            subprocess.Popen(
                self.java.command(
                    "kafka.tools.StorageTool",
                    "format",
                    f"--cluster-id={cluster_id}",  # which may begin with a dash
                    *("-c", str(broker.config)),
                    *(() if self.listeners is None else self.listeners.format_arguments()),
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for broker in self.brokers.values()
        ]
        for process in formats:
            said, _ = process.communicate(timeout=START_TIMEOUT_SECONDS)
            assert process.returncode == 0, said.decode()
        for broker in self.brokers.values():
            self._launch(broker)
        for broker in self.brokers.values():
            self._await_ready(broker)

    def stop(self) -> None:
        """Stops every broker, the controller last."""
        for node_id in sorted(self.brokers, reverse=True):
            self.stop_broker(node_id)

    def stop_broker(self, node_id: int) -> None:
        """A controlled shutdown of one broker; a kill after STOP_TIMEOUT_SECONDS."""
        process = self.brokers[node_id].process
        if process is None:
            return
        process.send_signal(signal.SIGCONT)  # it may have been stopped by a test
        end(process, STOP_TIMEOUT_SECONDS)
        self.brokers[node_id].process = None

    def kill_broker(self, node_id: int) -> None:
        """Kill one broker (SIGKILL): what it has not written to its log is lost."""
        process = self.brokers[node_id].process
        assert process is not None, f"broker {node_id} does not run"
        process.kill()
        process.wait()
        self.brokers[node_id].process = None

    def start_broker(self, node_id: int) -> None:
        """Starts a stopped broker on its old address and waits until it is ready."""
        self._launch(self.brokers[node_id])
        self._await_ready(self.brokers[node_id])

    @contextmanager
    def paused(self, node_id: int) -> Iterator[None]:
        """Pause the broker (SIGSTOP) inside the block: its sockets stay open, and it answers nothing."""
        process = self.brokers[node_id].process
        assert process is not None, f"broker {node_id} does not run"
        with suspended(process.pid):
            yield

    def pids(self) -> set[int]:
        """The processes of the running brokers."""
        return {
            broker.process.pid for broker in self.brokers.values() if broker.process is not None
        }

    def _write_configs(self) -> None:
        controller = f"{self.brokers[1].host}:{free_ports(self.brokers[1].host)}"
        for broker in self.brokers.values():
            listeners = f"PLAINTEXT://{broker.address}"
            listeners += "".join(f",{each}://{broker.address_of(each)}" for each in broker.further)
            advertised = listeners
            roles = "broker"
            if broker.node_id == 1:
                listeners += f",CONTROLLER://{controller}"
                roles = "broker,controller"
            broker.directory.mkdir(parents=True)
            broker.config.write_text(
                _CONFIG.format(
                    node_id=broker.node_id,
                    roles=roles,
                    controller=controller,
                    listeners=listeners,
                    advertised=advertised,
                    secured=self._secured(broker.host),
                    settings="\n".join(f"{key}={value}" for key, value in self.settings.items()),
                    data=broker.directory / "data",
                    replicas=self.size,
                    in_sync=max(1, self.size - 1),
                )
            )

    def _secured(self, host: str) -> str:
        if self.listeners is None:
            return ""
        protocols = {
            "PLAINTEXT": "PLAINTEXT",
            "CONTROLLER": "PLAINTEXT",
            **self.listeners.protocols,
        }
        names = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
        lines = (f"listener.security.protocol.map={names}", *self.listeners.properties(host))
        return "\n".join(lines)

    def _launch(self, broker: Broker) -> None:
        broker.starts += 1
        with broker.log.open("wb") as log:
            broker.process = subprocess.Popen(
                self.java.command("kafka.Kafka", str(broker.config), heap=self.heap, broker=True),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=broker.directory,
            )

    def _await_ready(self, broker: Broker) -> None:
        process = broker.process
        assert process is not None, f"broker {broker.node_id} was not launched"
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        while _READY not in broker.log.read_bytes():
            said = f"broker {broker.node_id}:\n{_tail(broker.log)}"
            assert process.poll() is None, f"ended with {process.returncode}: {said}"
            assert time.monotonic() < give_up, f"not ready: {said}"
            time.sleep(0.1)


def _tail(log: Path, lines: int = 40) -> str:
    return "\n".join(re.split(r"\n", log.read_text(errors="replace"))[-lines:])
