"""`python -m bench.policy_costs`: the CPU cost of a policy by what it asks for; writes its section of bench/RESULTS.md.

The method is that of `bench.in_process`. The policies decide nothing, so the figures are the cost of asking them.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Final

from bench.harness.command import options
from bench.harness.machine import describe, today
from bench.harness.markdown import facts_line, table, write_section
from bench.in_process import PRODUCE, PRODUCE_REPLY, REQUESTS, Cost, SessionLoop
from bench.in_process import measure as measure_all
from policies.access.config import AccessConfig, Rule
from policies.access.policy import Access
from policies.api import (
    FORWARD,
    Forward,
    Need,
    Outcome,
    Peer,
    Policy,
    Request,
    Response,
    Result,
    Verdict,
)
from policies.records import RecordRules, RecordRulesConfig
from policies.testing import BenchHost
from policies.testing.message_builder import request_body, response_body, topic_fields
from policies.testing.record_writer import record_batch
from proxy.core.engine import Engine
from tests.support.core.sessions import make_engine
from wire import codec
from wire.apis import ApiKey, known

ROUNDS: Final = 25
MAX_OTHER_US: Final = 0.15
MAX_OPAQUE_US: Final = 0.6
MAX_READING_US: Final = 2.0
MAX_TOPIC_US: Final = 0.3
MAX_RULES_US: Final = 1.0
MAX_RULE_US: Final = 0.3
METHOD: Final = """\
Made by `make bench-policies`: one session in one process, without sockets or kernel; a small Produce and its reply
unless stated otherwise, one in a read. *Added* is relative to the same requests without a policy."""

RULES_METHOD: Final = """\
Made by `make bench-policies`, as the costs of policies. The policy `access` has 10,000 rules, of which two are about
the client, and its requests are allowed. *Added* is relative to the same requests without a policy, and for `access`
to a policy that needs the same of them and decides nothing."""


class _Asked(Policy):
    """Judges each Produce, Fetch and OffsetCommit by what it needs, and forwards it."""

    Config = dict
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT})

    def __init__(self, needs: Need = Need.HEADER) -> None:
        super().__init__({}, BenchHost())
        self.needs = needs

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        return FORWARD


class _Told(_Asked):
    """Is told how each request ended as well."""

    def on_complete(
        self, request: Request, outcome: Outcome, peer: Peer, result: Result, now_ms: int
    ) -> None:
        pass


class _Hears(_Told):
    """Hears each reply as well."""

    def on_response(self, request: Request, response: Response, peer: Peer, now_ms: int) -> Forward:
        return FORWARD


class _OfAnotherApi(_Asked):
    """Wants none of the requests that are measured."""

    apis = frozenset({ApiKey.CREATE_TOPICS})


@dataclass(frozen=True, slots=True)
class Case:
    """Policies, and the requests that they are asked about. `max_us`: what they may add; None for a yardstick."""

    name: str
    policies: tuple[Policy, ...] = ()
    max_us: float | None = None
    api: tuple[int, int] | None = None
    """API key and version; none: the small Produce."""
    topics: int = 1
    beside: str = ""
    """The name of the case that is compared, if another than that without a policy."""

    @property
    def yardstick(self) -> str:
        """The name of the case with the same requests that it is compared with; empty for yardsticks."""
        if self.beside or not self.policies:
            return self.beside
        return _yardstick(self.api, self.topics).name


_NAMES: Final[Mapping[int, str]] = {
    ApiKey.PRODUCE: "Produce", ApiKey.FETCH: "Fetch", ApiKey.OFFSET_COMMIT: "OffsetCommit",
}  # fmt: skip


def _yardstick(api: tuple[int, int] | None, topics: int) -> Case:
    plural = "s" if topics > 1 else ""
    name = "no policy" if api is None else f"{_NAMES[api[0]]} of {topics} topic{plural}: no policy"
    return Case(name, api=api, topics=topics)


def _reading(api: tuple[int, int], topics: int) -> tuple[Case, Case]:
    """Return a yardstick, and a policy that needs the topics of the same requests."""
    most_us = MAX_READING_US + MAX_TOPIC_US * topics
    name = f"{_NAMES[api[0]]} of {topics} topics: `Need.TOPICS`"
    return _yardstick(api, topics), Case(name, (_Asked(Need.TOPICS),), most_us, api, topics)


def _by_rules(api: tuple[int, int], topics: int) -> tuple[Case, Case, Case]:
    """Return a policy that needs the topics, given by their ids, and beside it one that judges them by rules."""
    plural = "s" if topics > 1 else ""
    name = f"{_NAMES[api[0]]} of {topics} topic{plural} by id"
    asked = Case(
        f"{name}: `Need.TOPICS`", (_Asked(Need.TOPICS),), None, api, topics, f"{name}: no policy"
    )
    most_us = MAX_RULES_US + MAX_RULE_US * (topics - 1)
    return (
        Case(f"{name}: no policy", api=api, topics=topics),
        asked,
        Case(f"{name}: `access`", (_access(),), most_us, api, topics, asked.name),
    )


def _access() -> Policy:
    """Return `access` with 10,000 rules, of which two are about the client."""
    others = tuple(
        Rule(who=(f"user-{number}",), topics={f"other-{number}.*": ("read", "write")})
        for number in range(9_998)
    )
    mine = Rule(who=("ANONYMOUS",), topics={"topic-*": ("read",), "orders": ("all",)})
    more = Rule(who=("ANONYMOUS",), topics={"topic-*": ("write",)})
    return Access(AccessConfig((*others, mine, more)), BenchHost())


def _records() -> Policy:
    """Return the policy `records` with every rule, which the batches keep."""
    rules = RecordRulesConfig(
        max_batch_bytes=1 << 20,
        max_records=1_000,
        compression=("lz4", "zstd"),
        max_age_ms=1 << 40,
        max_ahead_ms=1 << 40,
    )
    return RecordRules(rules, BenchHost())


CASES: Final = (
    _yardstick(None, 1),
    Case("a policy that wants another API", (_OfAnotherApi(),), MAX_OTHER_US),
    Case("ten that want another API", tuple(_OfAnotherApi() for _ in range(10)), MAX_OTHER_US),
    Case("a policy with `on_request`", (_Asked(),), MAX_OPAQUE_US),
    Case("and `on_complete`", (_Told(),), None),
    Case("and `on_response`", (_Hears(),), None),
    Case("`on_request` with `Need.HEAD`", (_Asked(Need.HEAD),), None),
    Case("`on_request` with `Need.BODY`", (_Asked(Need.BODY),), None),
    Case(
        "`on_request` with `Need.TOPICS`",
        (_Asked(Need.TOPICS),),
        MAX_READING_US + MAX_TOPIC_US,
    ),
    _yardstick((ApiKey.PRODUCE, 9), 1),
    Case("Produce of 1 topic: `records`", (_records(),), None, (ApiKey.PRODUCE, 9), 1),
    *_reading((ApiKey.PRODUCE, 9), 10),
    Case("Produce of 10 topics: `records`", (_records(),), None, (ApiKey.PRODUCE, 9), 10),
    _yardstick((ApiKey.PRODUCE, 9), 100),
    Case("Produce of 100 topics: `records`", (_records(),), None, (ApiKey.PRODUCE, 9), 100),
    *_reading((ApiKey.FETCH, 12), 10),
    Case("Fetch of 10 topics: `Need.HEAD`", (_Asked(Need.HEAD),), None, (ApiKey.FETCH, 12), 10),
    *_reading((ApiKey.OFFSET_COMMIT, 8), 10),
    *_reading((ApiKey.OFFSET_COMMIT, 8), 50),
)
"""The cases; each yardstick stands before the cases that are compared with it."""

RULE_CASES: Final = (
    *_by_rules((ApiKey.PRODUCE, 13), 1),
    *_by_rules((ApiKey.PRODUCE, 13), 10),
    *_by_rules((ApiKey.FETCH, 13), 1),
    *_by_rules((ApiKey.FETCH, 13), 10),
    *_by_rules((ApiKey.FETCH, 13), 100),
)
"""The same, of `access`."""


TOPICS: Final = {(number + 1).to_bytes(16, "big"): f"topic-{number:02}" for number in range(100)}
"""Names by id."""


def frames(case: Case) -> tuple[bytes, bytes]:
    """Return the request of a case and its reply, both with correlation id 1."""
    if case.api is None:
        return PRODUCE, PRODUCE_REPLY
    api = known(*case.api)
    assert api is not None
    names = {f"topic-{number:02}": (0,) for number in range(case.topics)}
    ids = {name: topic_id for topic_id, name in TOPICS.items()}
    fields = topic_fields(codec.request_shape(api), names, ids, record_batch([bytes(40)]))
    if api.key == ApiKey.PRODUCE:
        fields["acks"] = -1
    body = request_body(api, fields)
    head = pack(">hhih6sx", *case.api, 1, 6, b"client")
    reply = response_body(api, {})
    return (
        pack(">i", len(head) + len(body)) + head + body,
        pack(">iix", 5 + len(reply), 1) + reply,
    )


def measure(
    rounds: int = ROUNDS, requests: int = REQUESTS, cases: Sequence[Case] = CASES
) -> list[Cost]:
    """Measure these cases; return the costs in their order."""
    loops = [
        SessionLoop(
            case.name,
            _engine(case),
            case.yardstick,
            requests=requests // case.topics,
            batch=1,  # the general path ends a turn after a few requests
            frames=frames(case),
        )
        for case in cases
    ]
    return measure_all(loops, rounds)


def _engine(case: Case) -> Engine:
    engine = make_engine(case.policies)
    engine.rewrites.learn(dict(TOPICS))
    return engine


def section(
    costs: list[Cost],
    facts: dict[str, str],
    cases: Sequence[Case] = CASES,
    title: str = "The cost of policies",
    method: str = METHOD,
) -> str:
    """Return a section of RESULTS.md; a limit that was not kept is marked."""
    rows = [_row(case, cost) for case, cost in zip(cases, costs, strict=True)]
    parts = [
        f"## {title}",
        method,
        table(["", "µs on the loop", "added", "limit"], rows),
        facts_line(facts),
    ]
    return "\n\n".join(parts)


def _row(case: Case, cost: Cost) -> list[str]:
    added = "" if cost.added is None else cost.added.text(2)
    limit = "" if case.max_us is None else f"≤ {case.max_us:g}"
    if cost.added is not None and case.max_us is not None and cost.added.median > case.max_us:
        limit = f"**{limit} NOT MET**"
    return [case.name, cost.own.text(2), added, limit]


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; return the exit code."""
    numbers = {"rounds": ROUNDS, "requests": REQUESTS}
    given = options("bench.policy_costs", __doc__, **numbers).parse_args(arguments)
    facts = {
        "date": today(),
        "rounds": f"{given.rounds} of {given.requests:,} requests",
        **describe(),
    }
    costs = measure(given.rounds, given.requests)
    rules = measure(given.rounds, given.requests, RULE_CASES)
    for name, found in (
        ("policies", section(costs, facts)),
        ("access", section(rules, facts, RULE_CASES, "The cost of access", RULES_METHOD)),
    ):
        print(found, end="\n\n")
        write_section(given.out, name, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
