"""`sluice-pipeline` as a process of its own, as a user starts it, with a Java that starts fast."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.pipeline.spark import SETTINGS

COMMAND: Final = Path(sys.executable).with_name("sluice-pipeline")
TIMEOUT_SECONDS: Final = 600
LOCAL: Final = ("--master", "local[2]")


def spark_words(**settings: str) -> list[str]:
    """Return the options for the settings of the tests' Spark, and these."""
    chosen = SETTINGS | {name.replace("_", "."): value for name, value in settings.items()}
    return [word for name, value in chosen.items() for word in ("--conf", f"{name}={value}")]


def run_pipeline(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a command with two local threads to its end; return what it said."""
    command = [str(COMMAND), *map(str, words), *LOCAL, *spark_words()]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )


def run_until(log: Path, moment: Callable[[], bool], *words: object) -> bool:
    """Run a command and kill it with its Spark (SIGKILL) at a moment; return whether it ended before."""
    command = [str(COMMAND), *map(str, words), *LOCAL, *spark_words()]
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    give_up = time.monotonic() + TIMEOUT_SECONDS
    try:
        while process.poll() is None and not moment():
            assert time.monotonic() < give_up, log.read_text()
            time.sleep(0.005)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    assert code in (0, -signal.SIGKILL), log.read_text()
    return code == 0
