"""Metadata of large clusters, in bytes that count what a walker slices out of them."""

from struct import pack

from wire.primitives import encode_compact, encode_compact_count


class Counting(bytearray):
    """Counts the bytes sliced out of it: the work of a walker that compares neighbours."""

    cut_bytes = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if isinstance(key, slice):
            self.cut_bytes += len(found)
        return found


def large_cluster(
    version: int, topics: int, shapes: list[tuple[int, int, int]], count: int
) -> Counting:
    """Return a Metadata body of `topics` topics with `count` partitions each;
    partitions take their (replicas, in-sync, offline) from the list in turn.
    """
    sizes = shapes * (count // len(shapes) + 1)
    partitions = b"".join(
        pack(">hiii", 0, n, n % 7, 3) + b"".join(encode_compact_count(e) + bytes(4 * e) for e in each) + b"\0"
        for n, each in enumerate(sizes[:count])
    )  # fmt: skip
    parts = [bytes(4), encode_compact_count(0), b"\x00", bytes(4), encode_compact_count(topics)]
    for n in range(topics):
        parts += [b"\0\0", encode_compact(b"topic-%d" % n), pack(">QQ", 1, n), b"\0"]
        parts += [encode_compact_count(count), partitions, bytes(4), b"\0"]
    end = bytes(2) if version >= 13 else b""
    return Counting(b"".join(parts) + end + b"\0")


def brokers(sizes: list[int], count: int) -> Counting:
    """Return a Metadata body of so many brokers, with hosts of these sizes in turn."""
    listed = b"".join(
        pack(">i", n) + encode_compact(b"h" * sizes[n % len(sizes)]) + pack(">i", 9092) + bytes(2)
        for n in range(count)
    )
    return Counting(bytes(4) + encode_compact_count(count) + listed + b"\0" + bytes(4) + b"\x01\0")
