"""The stage `throttle` of the rows of family `api`: one meaning of delay in all reports.

Rules:
- A delay is what a quota costs a client for one request: the wait before the request is forwarded, and the pause after
  it. Family `entity` counts the same delays when they are imposed (`throttled`, `throttle_ms`).
- `delay_i`, `delay_n` have one delay for each request. Rows of an older Sluice lack them: there the stage is the wait
  before requests were forwarded, the only part that they tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from pipeline.schema import DELAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_delays(api: DataFrame) -> DataFrame:
    """Return rows of family `api` whose stage `throttle` has the whole delays. To do it twice changes nothing."""
    return api.withColumns(
        {
            f"throttle_{kind}": sf.coalesce(f"{DELAY}_{kind}", f"throttle_{kind}")
            for kind in ("i", "n")
        }
    )
