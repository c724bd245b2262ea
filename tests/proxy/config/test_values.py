"""Settings written as text: their values and the texts that are refused."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.values import (
    LAST_NODE,
    NODES_PATTERN,
    SERVER_PATTERN,
    api_key_of,
    check_advertised_host,
    check_api,
    check_host,
    check_network,
    check_nodes,
    check_server,
    check_sni_pattern,
    check_token_url,
    check_user,
    host_of_node,
    is_address,
    is_loopback,
    parse_nodes,
    split_server,
)


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("kafka-1:9092", ("kafka-1", 9092)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fd00::3]:9092", ("fd00::3", 9092)),
    ],
)
def test_a_server_is_host_and_port(text: str, pair: tuple[str, int]) -> None:
    """The brackets of an IPv6 address are not part of the host."""
    assert re.match(SERVER_PATTERN, text)
    assert check_server(text) is None
    assert split_server(text) == pair


@pytest.mark.parametrize(
    "text",
    ["kafka", "kafka:", ":9092", "::1:9092", "a:0", "a:65536", "a:09", "a b:1", "a:1,b:1", "[x]:1", "[1:2]:9092"],
)  # fmt: skip
def test_a_malformed_server_is_refused(text: str) -> None:
    """Refused are a missing port, a port out of range, IPv6 without brackets, lists, and brackets without IPv6."""
    assert not re.match(SERVER_PATTERN, text) or check_server(text) is not None


@given(st.integers(0, 70_000))
def test_the_pattern_accepts_exactly_the_valid_ports(port: int) -> None:
    """The range is 1..65535."""
    assert bool(re.match(SERVER_PATTERN, f"a:{port}")) == (1 <= port <= 65535)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("0-2,10-11", (0, 1, 2, 10, 11)),
        ("5, 1-2", (5, 1, 2)),
        (7, (7,)),
        (str(LAST_NODE), (LAST_NODE,)),
    ],
)
def test_nodes_keep_the_order_in_which_they_are_written(
    text: str | int, ids: tuple[int, ...]
) -> None:
    """They are given as ids and ranges."""
    assert re.match(NODES_PATTERN, str(text))
    assert check_nodes(text) is None
    assert parse_nodes(text) == ids


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3-1", "a range that ascends (3-1 does not)"),
        ("0-1000", "at most 1000 nodes"),
        ("0-499,600-1100", "at most 1000 nodes"),
        ("0-2147483647", "at most 1000 nodes"),
        ("2147483648", "node ids up to 2147483647"),
        ("0-5,3", "each node once (3 is there twice)"),
    ],
)
def test_an_invalid_list_of_nodes_is_refused(text: str, words: str) -> None:
    """Descending ranges, too many, too large and repeated nodes each have a message of their own."""
    assert check_nodes(text) == (words, "")
    assert check_nodes("0-499,600-1099") is None, "a thousand"


@pytest.mark.parametrize("text", ["", "-1", "0-", "a", "0-2,", "0..2", "1-2-3"])
def test_text_that_is_not_a_list_of_nodes_is_refused(text: str) -> None:
    """The pattern accepts ids and ranges only."""
    assert not re.match(NODES_PATTERN, text)


def test_an_api_is_given_by_key_or_name() -> None:
    """Any key and all of Kafka's names are accepted; another name is refused with the nearest one."""
    assert [api_key_of(99), api_key_of("DeleteTopics"), api_key_of("Vote")] == [99, 20, 52]
    assert check_api(99) is None
    assert check_api("DeleteTopics") is None
    wrong = check_api("DeleteTopic")
    assert wrong is not None
    assert wrong[1] == "DeleteTopics"
    with pytest.raises(ValueError, match="DeleteTopic"):
        api_key_of("DeleteTopic")


TEXTS: tuple[tuple[Callable[[str], object], list[str], list[str]], ...] = (
    # IPv6 addresses have no brackets here; ports, blanks and lists are no part of a host.
    (
        check_host,
        ["localhost", "127.0.0.1", "::1", "0.0.0.0", "kafka.internal"],  # noqa: S104 - a text
        ["", "[::1]", "a:9092", "a b", "a/b", "a,b", "u@a"],
    ),
    (check_advertised_host, [""], ["a:1"]),  # an empty one counts as not given
    # Kafka does not restrict names. Refused are what harms a terminal or a file, `<default>` and Kafka's prefix.
    (
        check_user,
        ["", "alice", "a b", "büro", "CN=a,OU=b", "x" * 249, "UNKNOWN"],
        ["a\n", "\x1b[2J", " a", "x" * 250, "<default>", "User:a", "\0"],
    ),
    # A label has at most 63 characters for every id, a host 253; an address is no host name.
    (
        check_sni_pattern,
        ["broker-$(node).kafka.example.com", "$(node).a", "a.b$(node)", "B$(node)", "a.$(node)-b.c"],
        ["", "kafka.example.com", "broker-$(node).$(node).com", "broker-$(nodeId).com", "broker_$(node).com",
         "-$(node).com", "$(node).com.", "$(node)..com", "$(node).com:9092", "*.$(node).com", "10.0.0.$(node)",
         f"{'a' * 54}$(node).com", f"$(node).{'.'.join(['a' * 60] * 4)}"],
    ),
    # A client secret is sent over HTTPS or stays on the machine; no address is allowed too.
    (
        check_token_url,
        ["", "https://idp.example.com/oauth2/token?a=b", "https://[fd00::1]:8443/t", "http://127.0.0.1:8080/t"],
        ["http://idp.example.com/token", "idp.example.com/token", "file:///token", "https:///token",
         "https://user:password@idp.example.com/token", "https://idp.example.com:99999/token", "https://[::1/token",
         "https://idp.example.com/to ken", "http://127.example.com/token", "http://127.0.0.1.example.com/token"],
    ),
)  # fmt: skip
"""Each check, texts that it accepts, and texts that it refuses."""


@pytest.mark.parametrize(("check", "accepted", "refused"), TEXTS)
def test_texts_are_accepted_or_refused(
    check: Callable[[str], object], accepted: list[str], refused: list[str]
) -> None:
    """What each setting allows is beside its row."""
    assert [each for each in accepted if check(each) is not None] == []
    assert [each for each in refused if check(each) is None] == []


def test_each_broker_has_the_host_with_its_id_in_lower_case() -> None:
    """Clients and certificates compare names in any case."""
    assert host_of_node("B$(node).Example.com", 17) == "b17.example.com"


def test_an_address_is_told_from_a_name() -> None:
    """Names may have digits and hyphens only."""
    assert all(is_address(each) for each in ("127.0.0.1", "::1", "fd00::3"))
    assert not any(is_address(each) for each in ("localhost", "10-0-0-1", "1.2.3.example", "a"))


def test_a_loopback_address_and_localhost_are_this_machine() -> None:
    """In any spelling of an address. The owner of a name that begins like one says where it leads."""
    here = "localhost LOCALHOST. 127.0.0.1 127.255.1.2 ::1 0:0::1 ::ffff:127.0.0.1"
    elsewhere = "127.example.com 127.0.0.1.example.com 127. 127.1 127.0.0.1:80 10.0.0.1 0.0.0.0 :: ::127.0.0.1"
    assert [each for each in here.split() if not is_loopback(each)] == []
    assert [each for each in elsewhere.split() if is_loopback(each)] == []
    assert not is_loopback("")
    assert not is_loopback("127.0.0.1\0")


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("10.0.0.1/8", "10.0.0.0/8"), ("fd00::1/8", "fd00::/8"), ("10.0.0.0/33", ""), ("lb", "")],
)
def test_what_is_no_network_is_refused_with_the_nearest(text, nearest):
    """Bits after the prefix may be a mistake in either part."""
    found = check_network(text)
    assert found is not None
    assert found[1] == nearest
