"""The jars of a real Apache Kafka, exactly those of a checked-in lock file, kept in the checkout's own cache."""

from pathlib import Path

from pipeline.jars import provide_jars

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "kafka"
KAFKA_VERSION = "4.3.1"
KAFKA_LOCK = Path(__file__).with_name("locks") / f"kafka-{KAFKA_VERSION}.lock"


def kafka_jars(lock: Path = KAFKA_LOCK) -> Path:
    """Return a folder with every jar of `lock` and no other. Raises JarsUnavailableError."""
    folder = CACHE / lock.stem
    provide_jars(lock.read_text(), folder)
    return folder
