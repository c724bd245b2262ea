"""`make report` in short: clients with quotas and a real Sluice, then the pipeline in one session, then the page."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pipeline.cli.main import main
from policies.quota.quota_file import parse_quota_file
from proxy.demo import run
from proxy.demo.sluice import TRACES

SECONDS = 18
"""Alice is busy twice, for four seconds each time."""


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_run_becomes_a_page(spark: SparkSession, tmp_path: Path) -> None:
    """Alice is in the headline, with a larger quota; traces are read; nothing is missing; the quota file is valid."""
    log, folder = tmp_path / "log", tmp_path / "report"
    assert run(SECONDS, usage_log=log) == 0

    command = ["all", str(log), str(folder), "--traces", str(log / TRACES)]
    ran = CliRunner().invoke(main, command)

    assert ran.exit_code == 0, ran.output
    page = folder / "report.html"
    assert ran.stdout.splitlines()[-1] == f"report: {page}"
    html = page.read_text("utf-8")
    told = re.sub(r"<[^>]+>", "", html)
    assert re.search(r"% of the requests of (alice|report) were throttled", told)
    assert "slowest requests that were traced" in html
    assert 'class="verdict ok">complete' in html
    assert "request_rate 30/s of client-id=alice" in told
    assert html.count('<svg class="wide"') >= 7
    quotas = parse_quota_file((folder / "quotas.yaml").read_text("utf-8")).quotas
    assert quotas
    assert f" limits of {len(quotas)} entities" in ran.stdout
