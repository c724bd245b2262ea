"""The franz-go load program, built from `franz/` with the machine's Go, once for each state of its source.

Go fetches the modules that `go.sum` pins. Where there is no Go, or they cannot be had, `FranzUnavailableError` says so.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.support.kafka.kafka_jars import CACHE

SOURCE: Final = Path(__file__).with_name("franz")
BUILD_TIMEOUT_SECONDS: Final = 1200


class FranzUnavailableError(Exception):
    """No Go, or not the modules; says why."""


def franz_program() -> Path:
    """The program's path."""
    texts = [path.read_bytes() for path in sorted(SOURCE.iterdir())]
    target = CACHE.with_name("franz") / hashlib.sha256(b"".join(texts)).hexdigest()[:16]
    if target.is_file():
        return target
    go = shutil.which("go")
    if go is None:
        raise FranzUnavailableError("no Go in PATH to build the franz-go client with")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}")
    command = [go, "build", "-mod=readonly", "-o", str(partial), "."]
    try:
        done = subprocess.run(
            command,
            cwd=SOURCE,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FranzUnavailableError(str(error)) from error
    if done.returncode:
        raise FranzUnavailableError(f"franz-go cannot be built: {done.stderr[-500:]}")
    partial.replace(target)
    return target
