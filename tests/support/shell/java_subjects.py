"""Subjects as Java's `X500Principal.getName()` writes them: by the Java of this machine, and as a file remembers them.

python -m tests.support.shell.java_subjects    writes the file again
"""

import json
import shutil
import subprocess
from pathlib import Path
from random import Random

from tests.support.shell.made_subjects import certificate_with, hard_names, made_names, subject

GOLDEN = Path(__file__).parents[2] / "golden" / "java_subjects.jsonl"
PROGRAM = Path(__file__).parent / "java" / "Subjects.java"
TIMEOUT_SECONDS = 300
MADE = 150


class NoCompilerError(Exception):
    """This machine has no Java that compiles."""


def read_by_java(certificates: list[bytes]) -> list[str | None]:
    """Return the subject of each certificate, None for one that Java refuses. Raises NoCompilerError."""
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        raise NoCompilerError("no java with a compiler in PATH")
    done = subprocess.run(
        [java, "-Xmx256m", "-XX:+UseSerialGC", str(PROGRAM)],
        input="".join(f"{each.hex()}\n" for each in certificates),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == len(certificates), done.stderr
    return [None if line.startswith("!") else bytes.fromhex(line).decode() for line in lines]


def remembered() -> list[tuple[bytes, str]]:
    """Return subjects (DER) and Java's text of each."""
    with GOLDEN.open(encoding="ascii") as lines:
        pairs = map(json.loads, lines)
        return [(bytes.fromhex(der), text) for der, text in pairs]


def main() -> None:
    """Write the file by the Java of this machine."""
    random = Random(2253)
    made = [*hard_names(), *(made_names(random) for _ in range(MADE))]
    subjects = list(dict.fromkeys(der for names in made if len(der := subject(*names)) < 2000))
    texts = read_by_java(list(map(certificate_with, subjects)))
    pairs = [(der.hex(), text) for der, text in zip(subjects, texts, strict=True)]
    GOLDEN.write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs), "ascii")


if __name__ == "__main__":
    main()
