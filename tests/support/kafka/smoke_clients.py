"""`make clients`: five clients that no test runs, directly and through Sluice with a quota.

Each program of `smoke/` makes a topic, writes 300 records of 1 kB, reads them in a group, asks for the committed
offsets and fails to delete a topic that does not exist. It prints the outcome as one line of JSON. The outcome must be
the same both ways, and the expected one; through Sluice the quota must have throttled the client. Run by hand: it
fetches the clients that the lock files pin, with go, npm, pip and the loader of jars. Where one is missing, it says so.
The names of some clients as arguments run only these.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.harness.ports import free_ports
from pipeline.jars import provide_jars
from tests.support.kafka.java import kafka_java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_jars import CACHE, KAFKA_LOCK, KAFKA_VERSION, LOCKS
from tests.support.processes.measured import metrics_of
from tests.support.processes.sluice_process import SluiceProcess

SOURCE: Final = Path(__file__).with_name("smoke")
REQUIREMENTS: Final = Path(__file__).resolve().parents[3] / "requirements" / "clients.txt"
BUILT: Final = CACHE.with_name("smoke")
STREAMS_LOCK: Final = LOCKS / f"streams-{KAFKA_VERSION}.lock"
BUILD_SECONDS: Final = 600
RUN_SECONDS: Final = 180
PRODUCER_BYTE_RATE: Final = 50_000
"""300 kB are more than a client may write at once; each is throttled."""
EXPECTED: Final[Mapping[str, object]] = {
    "partitions": 3,
    "acked": 300,
    "consumed": 300,
    "distinct": 300,
    "committed": 300,
    "missing": "UNKNOWN_TOPIC_OR_PARTITION",
}
THROTTLED: Final = "sluice_user_throttled_requests_total"
FAILED: Final = 1
Command = Callable[[str, str], list[str]]
"""(bootstrap, topic) -> the command line."""


class SmokeError(Exception):
    """A client cannot be built, or has failed; says why."""


def run(command: list[str], seconds: float, cwd: Path | None = None) -> str:
    """Return what the command has printed. Raises SmokeError."""
    if shutil.which(command[0]) is None:
        raise SmokeError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SmokeError(f"{command[0]} took more than {seconds:.0f} s") from error
    if done.returncode:
        raise SmokeError(f"{command[0]} failed: {(done.stderr or done.stdout)[-2_000:]}")
    return done.stdout


def go_client(folder: str) -> Command:
    """Build the Go program of a folder."""
    program = BUILT / folder
    run(["go", "build", "-mod=readonly", "-o", str(program), "."], BUILD_SECONDS, SOURCE / folder)
    return lambda bootstrap, topic: [str(program), bootstrap, topic]


def node_client() -> Command:
    """Install kafkajs beside a copy of the program."""
    folder = BUILT / "kafkajs"
    shutil.copytree(SOURCE / "kafkajs", folder, dirs_exist_ok=True)
    run(["npm", "ci", "--no-audit", "--no-fund"], BUILD_SECONDS, folder)
    return lambda bootstrap, topic: ["node", str(folder / "smoke.js"), bootstrap, topic]


def python_client() -> Command:
    """Install aiokafka into an environment of its own."""
    folder = BUILT / "aiokafka"
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        venv.create(folder, with_pip=True)
    install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes"]
    run([python, *install, "-r", str(REQUIREMENTS)], BUILD_SECONDS)
    program = str(SOURCE / "aiokafka_smoke.py")
    return lambda bootstrap, topic: [python, program, bootstrap, topic]


def streams_client(protocol: str) -> Command:
    """Fetch the jars and compile the program; `protocol` is `classic` or `streams` (KIP-1071)."""
    jars = BUILT / "streams-jars"
    provide_jars(KAFKA_LOCK.read_text() + STREAMS_LOCK.read_text(), jars)
    classes = BUILT / "streams-classes"
    source = SOURCE / "streams" / "Smoke.java"
    run(["javac", "-cp", f"{jars}/*", "-d", str(classes), str(source)], BUILD_SECONDS)
    path = f"{jars}/*{os.pathsep}{classes}"

    def command(bootstrap: str, topic: str) -> list[str]:
        state = tempfile.mkdtemp(dir=BUILT, prefix="state-")
        return ["java", "-cp", path, "Smoke", bootstrap, topic, state, protocol]

    return command


CLIENTS: Final[Mapping[str, Callable[[], Command]]] = {
    "sarama": lambda: go_client("sarama"),
    "kafka-go": lambda: go_client("kafka_go"),
    "kafkajs": node_client,
    "aiokafka": python_client,
    "Streams": lambda: streams_client("classic"),
    "Streams (KIP-1071)": lambda: streams_client("streams"),
}


def outcome(command: list[str]) -> tuple[dict[str, object], float]:
    """Return what the client says, and how long it ran in seconds."""
    began = time.monotonic()
    lines = run(command, RUN_SECONDS).strip().splitlines()
    if not lines:
        raise SmokeError("it has printed nothing")
    found: dict[str, object] = json.loads(lines[-1])
    return found, time.monotonic() - began


def try_client(
    place: int, make: Callable[[], Command], direct: str, sluice: str, admin: str
) -> str:
    """Run one client both ways; return a line about it. Raises SmokeError."""
    command = make()
    straight, _ = outcome(command(direct, f"smoke-{place}-direct"))
    before = throttles(admin)
    through, seconds = outcome(command(sluice, f"smoke-{place}-sluice"))
    if not straight == through == EXPECTED:
        raise SmokeError(f"direct {straight}, through Sluice {through}, expected {dict(EXPECTED)}")
    if (throttled := throttles(admin) - before) < 1:
        raise SmokeError("the quota has not throttled it")
    return f"the same both ways, throttled {throttled} times, {seconds:.0f} s through Sluice"


def throttles(admin: str) -> int:
    """Return how many requests Sluice has throttled so far."""
    return int(metrics_of(admin).get(THROTTLED, 0))


def main(names: Sequence[str]) -> int:
    """Try these clients, or every client; return the exit code."""
    BUILT.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        cluster = KafkaCluster(work / "kafka", 1, 77, kafka_java())
        admin = f"127.0.0.1:{free_ports('127.0.0.1', 1)}"
        quota = {"quotas": [{"client_id": "<default>", "producer_byte_rate": PRODUCER_BYTE_RATE}]}
        settings: dict[str, object] = {
            "admin": {"listen": admin},
            "policies": [{"use": "quota", "config": quota}],
        }
        try:
            cluster.start()
            with SluiceProcess(cluster.bootstrap, work / "sluice", settings=settings) as sluice:
                for place, (name, make) in enumerate(CLIENTS.items()):
                    if names and name not in names:
                        continue
                    try:
                        said = try_client(place, make, cluster.bootstrap, sluice.bootstrap, admin)
                    except SmokeError as error:
                        failed, said = True, f"FAILED: {error}"
                    print(f"{name}: {said}", flush=True)  # noqa: T201 - a program for people
        finally:
            cluster.stop()
    return FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
