"""`make kafka-lock VERSION=4.5.0`: the lock file of a Kafka release, the jars of broker and tools with their sha256.

- What is resolved stands in the first line of the newest lock file, with its version in place of the new one.
- The registry is trusted once, here; from then on a jar counts only with the sha256 of the file. So look at what has
  changed beside the last lock file before you add it.
"""

import hashlib
import sys
import tempfile
from pathlib import Path

from jgo.maven import MavenContext
from jgo.maven._core import (
    create_pom,
)  # what imports no BOM: one of them would set Kafka's own version
from jgo.maven._model import Model

LOCKS = Path(__file__).with_name("locks")
_RESOLVED, _WITHOUT = "# resolved from ", ", without "


def newest_lock() -> Path:
    """Return the lock file of the newest Kafka."""
    return max(LOCKS.glob("kafka-*.lock"), key=lambda each: [*map(int, each.stem[6:].split("."))])


def head_for(version: str, lock: Path) -> str:
    """Return the first line of a lock file for another version."""
    head = lock.read_text("utf-8").splitlines()[0]
    return head.replace(f":{lock.stem.removeprefix('kafka-')}", f":{version}")


def locked(head: str, folder: Path) -> str:
    """Return the lock file that begins with this line. The jars are downloaded into `folder`."""
    asked, _, unwanted = head.removeprefix(_RESOLVED).partition(_WITHOUT)
    context = MavenContext(repo_cache=folder)
    pom = create_pom([context.create_dependency(each) for each in asked.split()], None)
    needed, _ = Model(pom, context).dependencies()
    jars = {}
    for each in needed:
        name = f"{each.groupId}:{each.artifactId}"
        if each.scope != "test" and name not in unwanted.split(" and "):
            sha256 = hashlib.sha256(each.artifact.resolve().read_bytes()).hexdigest()
            jars[name] = f"{name}:{each.version} {sha256}"
    return "\n".join((head, *(jars[name] for name in sorted(jars)), ""))


def main(version: str) -> None:
    """Write the lock file of a version."""
    lock = LOCKS / f"kafka-{version}.lock"
    with tempfile.TemporaryDirectory() as folder:
        text = locked(head_for(version, newest_lock()), Path(folder))
    lock.write_text(text, "utf-8")
    print(f"{lock}: {text.count(chr(10)) - 1} jars")  # noqa: T201 - a program for people


if __name__ == "__main__":
    main(sys.argv[1])
