"""The image of Spark for Kubernetes, really built; its roles are run as Kubernetes would start them."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from tests.support.kubernetes.image import (
    IMAGE_TIMEOUT_SECONDS,
    ImageUnavailableError,
    build_from,
    require_tools,
    run_in,
)
from tests.support.telemetry.usage_rows import numbered, usage_row, write_usage_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(IMAGE_TIMEOUT_SECONDS)]

IMAGE = "localhost/sluice-spark:test"
ENTRYPOINT = "/opt/entrypoint.sh"


@pytest.fixture(scope="module", autouse=True)
def image() -> None:
    """Build the image; another base than the Dockerfile's own, which cannot be had everywhere."""
    try:
        require_tools()
        build_from("examples/pipeline/Dockerfile", IMAGE)
    except ImageUnavailableError as error:
        pytest.skip(str(error))


def test_the_driver_runs_a_job_of_the_package(tmp_path: Path) -> None:
    """With Java, Python and the libraries of the image, as its user, and with the code of the package alone."""
    told = CliRunner().invoke(main, ["package", str(tmp_path / "package")])
    assert told.exit_code == 0, told.output
    rows = (usage_row("entity", requests=n) for n in range(5))
    write_usage_log(tmp_path / "log", numbered(rows))
    (tmp_path / "tables").mkdir()
    for folder, _, _ in os.walk(tmp_path):
        Path(folder).chmod(0o777)
    jars = ",".join(
        f"/data/package/jars/{jar.name}" for jar in (tmp_path / "package" / "jars").glob("*.jar")
    )
    words = [
        "--master", "local[2]", "--driver-memory", "700m", "--conf", "spark.ui.enabled=false",
        "--py-files", "/data/package/sluice.zip", "--jars", jars,
        "/data/package/main.py", "ingest", "/data/log", "/data/tables",
    ]  # fmt: skip

    said = run_in(
        IMAGE,
        [ENTRYPOINT, "driver", *words],
        *("--volume", f"{tmp_path}:/data"),
        *("--env", "SPARK_DRIVER_BIND_ADDRESS=127.0.0.1", "--env", "SPARK_LOCAL_IP=127.0.0.1"),
    )

    assert "entity: 5 lines, 5 rows added" in said


def test_the_executor_asks_the_driver_that_is_named() -> None:
    """Its variables become words and options of Java; a driver that is not there ends it."""
    variables = {
        "SPARK_JAVA_OPT_0": "-Dspark.port.maxRetries=0",
        "SPARK_JAVA_OPT_1": "-Dspark.network.timeout=9s",
        "SPARK_EXECUTOR_MEMORY": "256m",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "executor-7",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    options = [word for pair in variables.items() for word in ("--env", "=".join(pair))]

    with pytest.raises(ImageUnavailableError, match=r"127\.0\.0\.1:1"):
        run_in(IMAGE, [ENTRYPOINT, "executor"], *options)


def test_other_commands_run_as_they_are() -> None:
    """The Python is the one of the workers, new enough, and has the libraries."""
    code = "import sys, pyspark, pyarrow; print(*sys.version_info[:2], pyspark.__version__)"

    major, minor, spark = run_in(IMAGE, [ENTRYPOINT, "python3", "-c", code]).split()

    assert (int(major), int(minor)) >= (3, 11)
    assert spark.startswith("4.2.")
