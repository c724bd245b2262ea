"""Settings with a syntax of their own: HOST:PORT, hosts, networks, ranges of nodes, names of APIs.

- A `check_` function returns what it expected instead of a value, or None (see `policies.validation.Check`).
- A `split_` or `parse_` function expects a checked value and raises ValueError for others.
"""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Annotated

import msgspec

from policies.credential_guard import guarded_apis
from policies.type_names import nearest
from wire.apis import ApiKey, key_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY_MS = 86_400_000
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
LAST_PORT = 65535
MAX_NODES = 1000
"""Each node has a listening socket from the start."""
LAST_NODE = 2**31 - 1
MAX_USER_CHARS = 249
MAX_HOST_CHARS = 253
NODE_SIGN = "$(node)"
"""Stands for a broker's id in `listen.tls.sni_pattern`."""
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - named here to be refused as an address to dial

_PORT = r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"
SERVER_PATTERN = rf"^(?:\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]/@]+):{_PORT}$"
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
NODES_PATTERN = r"^\d{1,10}(?:-\d{1,10})?(?: *, *\d{1,10}(?:-\d{1,10})?)*$"

SERVER_WORDS = "HOST:PORT with a port from 1 to 65535 (an IPv6 address in brackets)"
_HOST_WORDS = "a host name or an IP address, without brackets and port"
_NODES_WORDS = 'node ids and ranges such as "0-31" or "0-2,10-12"'
_NETWORK_WORDS = "a network such as 10.0.0.0/8 or fd00::/8, or an address"
_USER_WORDS = "a user's bare name as the brokers know it"
SNI_WORDS = "a host name with $(node) in it once, such as broker-$(node).kafka.example.com"
_URL_WORDS = "https://HOST/PATH, or http:// to a loopback address"
_CREDENTIAL_API_WORDS = "Kafka's name of an API that is refused by default (docs/use/custody.md)"
_API_WORDS = "an API key from 0 to 32767, or Kafka's name of an API"


def split_server(text: str) -> tuple[str, int]:
    """Return `("kafka-1", 9092)` for `kafka-1:9092`, without the brackets of an IPv6 address."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_nodes(text: str | int) -> tuple[int, ...]:
    """Return the ids as written: `(0, 1, 2, 10)` for `0-2,10`. Raises ValueError that says what is expected."""
    ids: list[int] = []
    for first, last in _ranges(str(text)):
        if last < first:
            raise ValueError(f"a range that ascends ({first}-{last} does not)")
        if last > LAST_NODE:
            raise ValueError(f"node ids up to {LAST_NODE}")
        if len(ids) + last - first >= MAX_NODES:
            raise ValueError(f"at most {MAX_NODES} nodes")
        ids += range(first, last + 1)
    if len(set(ids)) < len(ids):
        twice = next(each for place, each in enumerate(ids) if each in ids[:place])
        raise ValueError(f"each node once ({twice} is there twice)")
    return tuple(ids)


def api_key_of(value: int | str) -> int:
    """Return the API key of a key or of Kafka's name. Raises ValueError for an unknown name."""
    key = value if isinstance(value, int) else key_of(value)
    if key is None:
        raise ValueError(f"no Kafka API is called {value!r}")
    return key


def check_server(value: object) -> tuple[str, str] | None:
    """Check HOST:PORT of a text that matches the pattern."""
    host = str(value).rpartition(":")[0]
    return (SERVER_WORDS, "") if host.startswith("[") and not _is_ipv6(host[1:-1]) else None


def check_host(value: object) -> tuple[str, str] | None:
    """Check a host without a port."""
    text = str(value)
    bad = not text or any(each in "[]/@," or each.isspace() for each in text)
    return (_HOST_WORDS, "") if bad or (":" in text and not _is_ipv6(text)) else None


def check_advertised_host(value: object) -> tuple[str, str] | None:
    """Check a host or an empty text."""
    return None if value == "" else check_host(value)


def host_of_node(pattern: str, node: int) -> str:
    """Return the host of a broker id: `broker-7.example.com` for `broker-$(node).example.com`, in lower case."""
    return pattern.replace(NODE_SIGN, str(node)).lower()


def check_sni_pattern(value: object) -> tuple[str, str] | None:
    """Check that the host of every broker id would be a host name of RFC 1123."""
    text = str(value)
    labels = host_of_node(text, LAST_NODE).split(".")
    legal = all(_LABEL.fullmatch(label) for label in labels) and not labels[-1].isdigit()
    fits = sum(map(len, labels)) + len(labels) - 1 <= MAX_HOST_CHARS
    return None if text.count(NODE_SIGN) == 1 and legal and fits else (SNI_WORDS, "")


def check_token_url(value: object) -> tuple[str, str] | None:
    """Check an address that a client secret is sent to, or an empty text. It must not have the secret itself."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - start-up: only with OAUTHBEARER

    text = str(value)
    try:
        url = urlsplit(text)
        host, _ = url.hostname or "", url.port
    except ValueError:
        return _URL_WORDS, ""
    is_safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(host))
    good = host and is_safe and "@" not in url.netloc and text.isprintable() and " " not in text
    return None if good or not text else (_URL_WORDS, "")


def check_jwks(value: object) -> tuple[str, str] | None:
    """Check a file's path, or an address that keys come from; or an empty text."""
    is_address = "://" in str(value)
    wrong = check_token_url(value) if is_address else None
    return wrong if wrong is None else (f"a file, or {wrong[0]}", wrong[1])


def check_network(value: object) -> tuple[str, str] | None:
    """Check a network; the nearest to one with bits after its prefix is the network itself."""
    text = str(value)
    try:
        ip_network(text)
    except ValueError:
        with suppress(ValueError):
            return _NETWORK_WORDS, str(ip_network(text, strict=False))
        return _NETWORK_WORDS, ""
    return None


def check_user(value: object) -> tuple[str, str] | None:
    """Check a user name as quotas know it, or an empty text."""
    text = str(value)
    if text.startswith("User:"):
        return f"{_USER_WORDS}, without User:", text.removeprefix("User:")
    good = len(text) <= MAX_USER_CHARS and text.isprintable() and text == text.strip()
    return None if good and text != "<default>" else (_USER_WORDS, "")


def check_nodes(value: object) -> tuple[str, str] | None:
    """Check ranges of a text that matches the pattern."""
    try:
        parse_nodes(str(value))
    except ValueError as error:
        return str(error), ""
    return None


def check_api(value: object) -> tuple[str, str] | None:
    """Check an API key or name."""
    if isinstance(value, int) or key_of(str(value)) is not None:
        return None
    names = [name for name in map(name_of, ApiKey) if key_of(name) is not None]
    return _API_WORDS, nearest(str(value), names)


def check_credential_api(value: object) -> tuple[str, str] | None:
    """Check the name of an API that clients may not use by Sluice's own credentials."""
    names = guarded_apis()
    return None if value in names else (_CREDENTIAL_API_WORDS, nearest(str(value), names))


def is_address(host: str) -> bool:
    """Return whether this is an IPv4 or IPv6 address, not a name."""
    return _IPV4.fullmatch(host) is not None or _is_ipv6(host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine or pod can connect to it: an address of its own, or the name localhost."""
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        yield int(first), int(last or first)


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False


Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=DAY_MS)]
PositiveMilliseconds = Annotated[int, msgspec.Meta(ge=1, le=DAY_MS)]
FileBytes = Annotated[int, msgspec.Meta(ge=1 << 16, le=INT64_MAX)]
Server = Annotated[
    str,
    msgspec.Meta(
        pattern=SERVER_PATTERN,
        examples=["kafka-1:9092", "[fd00::1]:9092"],
        extra={"expected": SERVER_WORDS, "check": check_server},
    ),
]
Network = Annotated[
    str,
    msgspec.Meta(
        examples=["10.0.0.0/8", "fd00::/8"],
        extra={"expected": _NETWORK_WORDS, "check": check_network},
    ),
]
NodeList = Annotated[str, msgspec.Meta(pattern=NODES_PATTERN)]
Nodes = Annotated[
    Annotated[int, msgspec.Meta(ge=0, le=LAST_NODE)] | NodeList,
    msgspec.Meta(
        description="Broker ids with a port of their own: port + 1 + place in this list.",
        examples=["0-31", "0-2,10-12"],
        extra={"expected": _NODES_WORDS, "check": check_nodes},
    ),
]
Api = Annotated[
    Annotated[int, msgspec.Meta(ge=0, le=32767)] | str,
    msgspec.Meta(extra={"expected": _API_WORDS, "check": check_api}),
]
ForwardedApis = Annotated[
    tuple[
        Annotated[
            str,
            msgspec.Meta(extra={"expected": _CREDENTIAL_API_WORDS, "check": check_credential_api}),
        ],
        ...,
    ],
    msgspec.Meta(
        description="APIs, by Kafka's names, that clients may use although the brokers judge them by these "
        "credentials: of credentials, access rights, quotas, brokers' configs and the cluster's members.",
        examples=["DescribeAcls", "IncrementalAlterConfigs"],
    ),
]
