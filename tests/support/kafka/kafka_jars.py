"""The jars of a real Apache Kafka, exactly those of a checked-in lock file, kept in the checkout's own cache.

The tests run on KAFKA_VERSION; `KAFKA=3.9.2` in the environment chooses another version that has a lock file.
"""

import os
from pathlib import Path

from pipeline.jars import provide_jars

CACHE = Path(__file__).resolve().parents[3] / ".cache" / "kafka"
LOCKS = Path(__file__).with_name("locks")
KAFKA_VERSION = os.environ.get("KAFKA") or "4.4.0"
KAFKA_RELEASE = tuple(int(part) for part in KAFKA_VERSION.split(".")[:2])
"""Major and minor number, to compare with."""
KAFKA_LOCK = LOCKS / f"kafka-{KAFKA_VERSION}.lock"


def kafka_jars(lock: Path = KAFKA_LOCK) -> Path:
    """Return a folder with every jar of `lock` and no other. Raises JarsUnavailableError."""
    folder = CACHE / lock.stem
    provide_jars(lock.read_text(), folder)
    return folder
