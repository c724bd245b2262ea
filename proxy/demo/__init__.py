"""`sluice demo`: a polite and a noisy client, a real Sluice with and without a quota, and a verdict.

Rules:
- The cluster, Sluice and each client are processes of their own: no client shares an interpreter with another.
- The verdict is a pure function of what the clients report (`checks.judge`), never of what Sluice says.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from proxy.demo.checks import Evidence

MISSING = "The demo needs a Kafka client: install kafka-sluice[demo]."
FAILED, MISSING_CLIENT, INTERRUPTED = 1, 2, 130


def run(
    seconds: float,
    *,
    page: Path | None = None,
    usage_log: Path | None = None,
    quotas_file: Path | None = None,
) -> int:
    """Run the demo on standard output, write the page of the run to `page`, and return the exit code.

    With `usage_log` four clients with quotas take the place of the noisy one, and Sluice writes its usage log and
    traces into that folder. Their quotas are those of `quotas_file`, if it is given.
    0: no check fails. 1: a check fails, or the demo could not be completed. 2: a Kafka client is missing.
    130: interrupted.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        click.echo(MISSING)
        return MISSING_CLIENT
    from proxy.demo.act import play  # noqa: PLC0415 - `sluice version` should not pay for the demo
    from proxy.demo.processes import DemoError  # noqa: PLC0415 - same

    try:
        with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
            evidence = play(seconds, Path(folder), usage_log, quotas_file)
    except DemoError as error:
        click.echo(f"The demo failed: {error}")
        return FAILED
    except KeyboardInterrupt:
        click.echo("Interrupted: no verdict.")
        return INTERRUPTED
    return _conclude(evidence, page)


def _conclude(evidence: Evidence, page: Path | None) -> int:
    """Print the verdict, write the page, and return the exit code."""
    from proxy.demo.checks import judge  # noqa: PLC0415 - see `run`
    from proxy.demo.report import lines_of, write_page  # noqa: PLC0415 - same

    findings = judge(evidence)
    for line in lines_of(evidence, findings):
        click.echo(line)
    if page is not None:
        try:
            write_page(page, evidence, findings)
        except OSError as error:
            click.echo(f"The page of this run could not be written: {error}")
        else:
            click.echo(f"The page of this run: {page.resolve()}")
    return FAILED if any(finding.holds is False for finding in findings) else 0
