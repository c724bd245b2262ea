"""The physical plans of all queries that Spark has run, and the steps in them that do not grow with a cluster."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

JOINS: Final = ("CartesianProduct", "BroadcastNestedLoopJoin")
"""Joins that compare each row with each other."""
SMALLER: Final = re.compile(r"Aggregate|Limit|TakeOrdered|Sample")
"""Steps after which there are few rows: partial aggregates, and limits."""
_NODE: Final = re.compile(
    r"^(?P<indent>[\s:+\-|]*)(?:\* )?(?P<name>[A-Za-z].*?) \((?P<number>\d+)\)$"
)


class Node(NamedTuple):
    """A step of a plan: its depth in the tree, its name and its number."""

    depth: int
    name: str
    number: int


def last_query(spark: SparkSession) -> int:
    """Return the number of the last query, -1 if there was none."""
    return max((query.executionId() for query in _queries(spark)), default=-1)


def plans_after(spark: SparkSession, number: int) -> list[str]:
    """Return the plans of all queries after this one, as they were run, but those of Delta Lake over its own log."""
    # The plans of a whole run are hundreds of megabytes: only these are fetched from the JVM.
    later = (query for query in _queries(spark) if query.executionId() > number)
    plans = (query.physicalPlanDescription() for query in later)
    return [plan for plan in plans if "/_delta_log/" not in plan]


def _queries(spark: SparkSession) -> Iterator[JavaObject]:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return map(found.apply, range(found.size()))


def nodes(plan: str) -> list[Node]:
    """Return the steps of all trees in a plan, in the order of the text: a step comes before its inputs."""
    lines = map(_NODE.match, plan.splitlines())
    return [
        Node(len(found["indent"]), found["name"], int(found["number"])) for found in lines if found
    ]


def faults(plan: str) -> list[str]:
    """Return joins of each row with each other, and exchanges of rows to a single partition."""
    steps = nodes(plan)
    found = [step.name for step in steps if step.name.startswith(JOINS)]
    for number in re.findall(
        r"^\((\d+)\) Exchange\n(?:.+\n)*?Arguments: SinglePartition", plan, re.MULTILINE
    ):
        for place, step in enumerate(steps):
            if step.number == int(number) and not _is_small(steps[place:]):
                found.append(f"Exchange ({number}) of rows to a single partition")
                break
    return found


def _is_small(steps: list[Node]) -> bool:
    """Return whether a step below the first reduces its rows, before the tree branches or ends."""
    depth = steps[0].depth
    for step in steps[1:]:
        if step.depth <= depth:
            break
        if SMALLER.search(step.name):
            return True
        depth = step.depth
    return False
