"""The defaults of the figures that the application supplies."""

from proxy.telemetry.facts import Facts, Reloads
from tests.support.telemetry.metrics_page import PROCESS


def test_only_the_version_and_the_process_must_be_known() -> None:
    """All other fields default to "nothing has happened"."""
    facts = Facts("1.0", PROCESS)

    assert not facts.draining
    assert facts.reloads == Reloads(0, 0, None, 0)
    assert facts.spans_dropped == facts.usage_rows_dropped == facts.log_lines_lost == 0
    assert not facts.log_suppressed
    assert not facts.features
