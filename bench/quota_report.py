"""What `python -m bench.quota` found, and its section of RESULTS.md.

Rules: every row is written as it was found; one outside its bounds says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LIMIT = 100.0
LEAST, MOST = 0.9, 1.05
METHOD = """\
Made by `make bench-quota`: a real Apache Kafka, users by SASL PLAIN, each row a user of its own."""
WAYS = """\
Must be within +5 % / -10 % in `entity` enforcement. `channel` is Kafka's rule, escape hatches included; *by the rule*
is what a simulation of it gives for the same client and the same seconds."""
CLIENTS = """\
Throttle times in ms, average and maximum over the run: as Sluice wrote them into the replies (read by a tap between
client and Sluice), and as the client's own metric has them."""
BOTH = """\
Limits in requests/s; the broker's is one of bytes, held as Kafka holds it. Joined, the lower one is what passes;
doubled, it would be half of it where they are equal."""


@dataclass(slots=True)
class Way:
    """One row of T6; rates in requests per second, `rule` is what Kafka's own would be."""

    title: str
    entity: float
    entity_longest_s: float
    channel: float
    rule: float | None

    @property
    def kept(self) -> bool:
        """Whether the entity's limit was held from both sides."""
        return LEAST * LIMIT <= self.entity <= MOST * LIMIT


@dataclass(slots=True)
class Client:
    """One row of the clients; throttle times in ms, average and maximum."""

    title: str
    heeds: bool
    limit: float
    rate: float
    longest_s: float
    reconnects: int
    errors: int
    written: tuple[float, float]
    told: tuple[float | None, float | None]

    @property
    def kept(self) -> bool:
        """Whether it had its limit, in peace."""
        near = LEAST * self.limit <= self.rate <= MOST * self.limit
        return near and not self.reconnects and not self.errors


@dataclass(slots=True)
class Both:
    """One row of the brokers' quotas; requests per second."""

    ours: float
    brokers: float
    rate: float


@dataclass(slots=True)
class Found:
    """Everything a run found."""

    ways: list[Way] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    both: list[Both] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


def section(found: Found) -> str:
    """Its part of RESULTS.md."""
    parts = [
        "## What quotas let through",
        METHOD,
        f"### Those who try to evade {LIMIT:g} requests/s",
        WAYS,
        _table(
            [
                "",
                "`entity`, requests/s",
                "",
                "longest wait, s",
                "`channel`, requests/s",
                "by the rule",
            ],
            [
                [
                    way.title,
                    f"{way.entity:.1f}",
                    "kept" if way.kept else "**NOT KEPT**",
                    f"{way.entity_longest_s:.2f}",
                    f"{way.channel:.1f}",
                    "whatever is asked" if way.rule is None else f"{way.rule:.1f}",
                ]
                for way in found.ways
            ],
        ),
        "### Clients under a quota",
        CLIENTS,
        _table(
            [
                *("", "heeds the field", "limit", "requests/s", "", "longest wait, s"),
                *("reconnects", "errors", "written", "client's own"),
            ],
            [
                [
                    client.title,
                    "yes" if client.heeds else "no",
                    f"{client.limit:g}",
                    f"{client.rate:.2f}",
                    "kept" if client.kept else "**NOT KEPT**",
                    f"{client.longest_s:.2f}",
                    str(client.reconnects),
                    str(client.errors),
                    _pair(client.written),
                    _pair(client.told),
                ]
                for client in found.clients
            ],
        ),
        "### The broker's quota and ours",
        BOTH,
        _table(
            ["Sluice's", "broker's", "requests/s"],
            [[f"{one.ours:g}", f"{one.brokers:g}", f"{one.rate:.2f}"] for one in found.both],
        ),
        _table(["", ""], [[key, value] for key, value in found.facts.items()]),
    ]
    return "\n\n".join(parts)


def _pair(figures: tuple[float | None, float | None]) -> str:
    return " / ".join("-" if figure is None else f"{figure:.0f}" for figure in figures)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
