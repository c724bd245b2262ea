"""The figures of quotas: what each entity needs beside what it may, and predictions for other quotas.

Rules:
- The quotas in force are read from the rows: each names the entity whose rate held for its client.
- The rows of a prediction are those of `pipeline.whatif`: one for each instance, client, limit and factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from pipeline.report.facts import OTHER, ClientName, EntityNeed, SweepCell
from pipeline.report.labels import client_names
from policies.quota.config import QuotaLine
from policies.quota.entity import REQUEST_RATE, tags_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame

    from pipeline.recommend.needs import Level
    from pipeline.recommend.rules import RecordedNeed
    from pipeline.report.facts import ClientUse


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


def level_of(present: Iterable[QuotaLine], clients: Iterable[ClientUse]) -> Level:
    """Return whose needs to show: of the entities that have quotas; without any of users, if there are several."""
    kinds = {(line.user is not None, line.client_id is not None) for line in present}
    if (True, True) in kinds or len(kinds) > 1:
        return "both"
    if not kinds:
        return "user" if len({each.client.user for each in clients}) > 1 else "client_id"
    return "user" if (True, False) in kinds else "client_id"


def needs_of(
    needs: Iterable[RecordedNeed],
    present: Iterable[QuotaLine],
    limit: Callable[[RecordedNeed], float | None],
) -> tuple[EntityNeed, ...]:
    """Return the needs beside the quotas in force; `limit` gives the recommended one.

    Of the needs of users, users with client ids, or client ids those that are not told apart are None.
    """
    quotas = {(line.user, line.client_id): line.request_rate for line in present}
    every = list(needs)
    clients = [ClientName(need.user or "", need.client_id or "") for need in every]
    names = client_names(clients)
    found = []
    for need, client in zip(every, clients, strict=True):
        keys = ((need.user, need.client_id), (need.user, None), (None, need.client_id))
        quota = next((quotas[key] for key in keys if key in quotas), None)
        entity = (need.user, need.client_id)
        found.append(EntityNeed(names[client], entity, need.mean, need.value, quota, limit(need)))
    return tuple(found)


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
