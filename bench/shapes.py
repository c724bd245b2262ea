"""The shapes of load: the requests, the number of connections, the requests in flight.

The figure to read is MB/s for a `bulk` shape, and the added latency for a shape with a `rate` (open loop).
"""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of load. `rate` in requests per second over all connections; 0 is closed loop."""

    name: str
    title: str
    connections: int
    depth: int = 1
    kind: str = "produce"
    value_bytes: int = 0
    rate: int = 0

    @property
    def bulk(self) -> bool:
        """Return whether the bytes cost more than the requests."""
        return self.value_bytes >= MIB

    def arguments(self, port: int, seconds: float, warm_seconds: float) -> list[str]:
        """Return the arguments of bench/bin/load."""
        given = {
            "-p": port,
            "-k": self.kind,
            "-n": self.connections,
            "-d": self.depth,
            "-b": self.value_bytes,
            "-r": self.rate,
            "-s": seconds,
            "-w": warm_seconds,
            "-v": 11,  # of Produce
        }
        return [str(part) for pair in given.items() for part in pair] + ["-g"]


SHAPES = (
    Shape("small-1", "100 B, 1 connection", 1),
    Shape("small-10", "100 B, 10 connections", 10),
    Shape("small-100", "100 B, 100 connections", 100),
    Shape("small-1000", "100 B, 1,000 connections", 1000),
    Shape("deep-10", "100 B, 10 x 10 in flight", 10, depth=10),
    Shape("deep-16", "100 B, 10 x 16 in flight", 10, depth=16),
    Shape("rate-1000", "100 B, 1,000 requests/s over 10", 10, rate=1000),
    Shape("rate-4000", "100 B, 4,000 requests/s over 10", 10, rate=4000),
    Shape("kb-16", "16 KiB, 10 connections", 10, value_bytes=16 * 1024),
    Shape("fetch-1", "fetch 1 MiB, 1 connection", 1, kind="fetch", value_bytes=MIB),
    Shape("fetch-10", "fetch 1 MiB, 10 connections", 10, kind="fetch", value_bytes=MIB),
    Shape("produce-10", "produce 1 MiB, 10 connections", 10, value_bytes=MIB),
)


def choose(names: str) -> list[Shape]:
    """Return the shapes named in a comma-separated list, in the order of the table; all if it is empty.

    Raises:
        ValueError: a name is unknown.
    """
    wanted = [name for name in names.split(",") if name]
    known = {shape.name for shape in SHAPES}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"unknown shape {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    return [shape for shape in SHAPES if not wanted or shape.name in wanted]
