"""The results of `python -m bench.quota`, and its section of RESULTS.md.

Every row is written; a row outside its bounds is marked.
"""

from dataclasses import dataclass, field

from bench.harness.markdown import columns, facts_line, table

LIMIT = 100.0
MIN_SHARE, MAX_SHARE = 0.9, 1.05
METHOD = """\
Made by `make bench-quota`: a real Apache Kafka; users authenticate by SASL PLAIN; each row is a separate user."""
WAYS = """\
The rate must be within +5 % / -10 % of the limit in `entity` enforcement. `channel` is Kafka's rule with its
loopholes; *by the rule* is the result of a simulation of that rule for the same client and duration."""
CLIENTS = """\
Throttle times are in ms, average / maximum over the run. *Written* is what Sluice wrote into the replies, read
between client and Sluice; *client's own* is the client's own metric."""
BOTH = """\
Limits are in requests/s; the broker's limit is one of bytes, enforced as Kafka does. If the two are combined
correctly, the lower one is the rate; counted twice, equal limits would give half of it."""


@dataclass(slots=True)
class Way:
    """One way to evade a limit; rates in requests per second, `rule` is the rate by Kafka's rule."""

    title: str
    entity: float
    entity_longest_s: float
    channel: float
    rule: float | None

    @property
    def kept(self) -> bool:
        """Return whether the rate was within the bounds of the limit."""
        return MIN_SHARE * LIMIT <= self.entity <= MAX_SHARE * LIMIT


@dataclass(slots=True)
class Client:
    """One client; throttle times in ms, average and maximum. `honours`: it waits as told by throttle_time_ms."""

    title: str
    honours: bool
    limit: float
    rate: float
    longest_s: float
    reconnects: int
    errors: int
    written: tuple[float, float]
    told: tuple[float | None, float | None]

    @property
    def kept(self) -> bool:
        """Return whether the rate was within the bounds, without reconnects and errors."""
        near = MIN_SHARE * self.limit <= self.rate <= MAX_SHARE * self.limit
        return near and not self.reconnects and not self.errors


@dataclass(slots=True)
class Both:
    """Sluice's and the broker's quota together; requests per second."""

    ours: float
    brokers: float
    rate: float


@dataclass(slots=True)
class Found:
    """The results of one run."""

    ways: list[Way] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    both: list[Both] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


def section(found: Found) -> str:
    """Return the section of RESULTS.md."""
    parts = [
        "## Rates under quotas",
        METHOD,
        f"### Attempts to evade {LIMIT:g} requests/s",
        WAYS,
        columns(
            found.ways,
            [
                ("", lambda way: way.title),
                ("`entity`, requests/s", lambda way: f"{way.entity:.1f}"),
                ("", _verdict),
                ("longest wait, s", lambda way: f"{way.entity_longest_s:.2f}"),
                ("`channel`, requests/s", lambda way: f"{way.channel:.1f}"),
                ("by the rule", lambda way: "unlimited" if way.rule is None else f"{way.rule:.1f}"),
            ],
        ),
        "### Clients under a quota",
        CLIENTS,
        columns(
            found.clients,
            [
                ("", lambda client: client.title),
                ("honours throttle_time_ms", lambda client: "yes" if client.honours else "no"),
                ("limit", lambda client: f"{client.limit:g}"),
                ("requests/s", lambda client: f"{client.rate:.2f}"),
                ("", _verdict),
                ("longest wait, s", lambda client: f"{client.longest_s:.2f}"),
                ("reconnects", lambda client: str(client.reconnects)),
                ("errors", lambda client: str(client.errors)),
                ("written", lambda client: _pair(client.written)),
                ("client's own", lambda client: _pair(client.told)),
            ],
        ),
        "### The broker's quota and Sluice's",
        BOTH,
        table(
            ["Sluice's", "broker's", "requests/s"],
            [[f"{one.ours:g}", f"{one.brokers:g}", f"{one.rate:.2f}"] for one in found.both],
        ),
        facts_line(found.facts),
    ]
    return "\n\n".join(parts)


def _verdict(row: Way | Client) -> str:
    return "kept" if row.kept else "**NOT KEPT**"


def _pair(figures: tuple[float | None, float | None]) -> str:
    return " / ".join("-" if figure is None else f"{figure:.0f}" for figure in figures)
