"""The figures of quotas: what each entity needs beside what it may, and predictions for other quotas.

Rules:
- The quotas in force are read from the rows: each names the entity whose rate held for its client.
- The rows of a prediction are those of `pipeline.whatif`: one for each instance, client, limit and factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from pipeline.report.facts import OTHER, ClientName, EntityNeed, SweepCell
from policies.quota.config import QuotaLine
from policies.quota.entity import DEFAULT_NAME, REQUEST_RATE, tags_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from pipeline.report.facts import ClientUse
    from policies.quota.quota_file import QuotaFileLine


_OTHERS: Final = {"user": "", "client_id": OTHER}


def present_quotas(clients: Iterable[ClientUse]) -> list[QuotaLine]:
    """Return the request rates in force, each with the entity that it was for."""
    found: dict[tuple[str | None, str | None], QuotaLine] = {}
    for use in clients:
        user, client_id = use.client
        for tags in ((user, client_id), (user, ""), ("", client_id)):
            if use.quota_rate is not None and use.quota_entity == tags_text(tags):
                entity = (tags[0] or None, tags[1] or None)
                found.setdefault(
                    entity,
                    QuotaLine(user=entity[0], client_id=entity[1], request_rate=use.quota_rate),
                )
    return list(found.values())


def needs_of(
    lines: Iterable[QuotaFileLine], clients: Sequence[ClientUse]
) -> tuple[EntityNeed, ...]:
    """Return the evidence of recommended request rates, beside the rates in force for the same clients."""
    found = []
    for line in lines:
        evidence = line.evidence.get(REQUEST_RATE)
        if line.request_rate is None or not isinstance(evidence, dict):
            continue
        name = tags_text((line.user or "", line.client_id or ""))
        covered = [each for each in clients if _covers(line, each.client)]
        most = max(covered, key=lambda each: each.requests, default=None)
        need = EntityNeed(
            name,
            float(evidence.get("p50") or 0.0),
            float(evidence.get("p999") or 0.0),
            None if most is None else most.quota_rate,
            line.request_rate,
        )
        found.append(need)
    return tuple(found)


def _covers(line: QuotaLine, client: ClientName) -> bool:
    return all(
        wanted is None or wanted in (DEFAULT_NAME, own)
        for wanted, own in zip((line.user, line.client_id), client, strict=True)
    )


def sweep_of(predictions: DataFrame, clients: Iterable[ClientName]) -> tuple[SweepCell, ...]:
    """Return the predictions for these clients, and for all others as one.

    `predictions` has the columns of `pipeline.whatif`.
    """
    few = predictions.sparkSession.createDataFrame(
        [(*each, True) for each in clients], "user string, client_id string, is_shown boolean"
    )
    is_shown = sf.coalesce("is_shown", sf.lit(False))
    named = predictions.join(sf.broadcast(few), ["user", "client_id"], "left")
    names = [
        sf.when(is_shown, sf.col(name)).otherwise(other).alias(name)
        for name, other in _OTHERS.items()
    ]
    summed = (
        named.where(sf.col("limit_key") == REQUEST_RATE)
        .groupBy(*names, "factor")
        .agg(
            sf.sum(sf.greatest("wanted_per_s", "accepted_per_s") * sf.col("seconds")).alias(
                "demand"
            ),
            sf.sum("requests").alias("accepted"),
            sf.sum(sf.col("throttled_share") * sf.col("requests")).alias("throttled"),
            sf.max("limit").alias("limit"),
        )
    )
    return tuple(
        SweepCell(
            ClientName(row["user"], row["client_id"]),
            float(row["factor"]),
            round(row["demand"]),
            round(row["accepted"]),
            round(row["throttled"]),
            row["limit"],
        )
        for row in summed.orderBy("user", "client_id", "factor").collect()
    )
