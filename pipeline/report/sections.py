"""The sections of the page: each is a finding, a chart with its key, and the figures as a table; or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.report.quota_sections import needs_section, sweep_section
from pipeline.report.traffic_sections import throttled_section, traffic_section
from pipeline.report.wait_sections import (
    pools_section,
    slowest_section,
    stages_section,
    waits_section,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.report.facts import ReportFacts


def sections(facts: ReportFacts) -> Iterator[str]:
    """Yield the sections that have something to show, in the order of the page."""
    yield from traffic_section(facts)
    yield from throttled_section(facts)
    yield from needs_section(facts)
    yield from sweep_section(facts)
    yield from waits_section(facts)
    yield from stages_section(facts)
    yield from slowest_section(facts)
    yield from pools_section(facts)
