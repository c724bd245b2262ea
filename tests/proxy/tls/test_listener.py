"""The client of a TLS port: its user, its broker, and the certificate that it is shown."""

import ssl
import sys

import pytest

from proxy.shell.transport import HandshakeError
from proxy.tls.contexts import server_context
from proxy.tls.peer_names import ServerNames
from tests.support.shell.sockets import PREPARED, options_set_on, tcp_pair
from tests.support.shell.tls import hello_asking_for
from tests.support.shell.tls_clients import listener_of, meet, trusting

NAMES = ServerNames("kafka.test", {4: "broker-4.kafka.test"})


async def test_a_client_without_certificate_has_no_user_and_the_node_of_its_port(
    authority, event_loop
):
    """Nothing is mapped. The wait for its hello (SO_RCVLOWAT) leaves no option on the socket."""
    met, far = await meet(listener_of(authority, event_loop), trusting(authority))
    assert options_set_on(met.transport._socket) == PREPARED
    assert (met.node_id, met.user, met.transport.security.subject) == (9, "", "")
    far.close()
    met.transport.close()


async def test_the_user_is_made_from_the_subject_of_the_certificate(authority, event_loop):
    """The subject is that of Java, the common name first."""
    own = authority.issue("app", common_name="app")
    listener = listener_of(
        authority, event_loop, auth="required", user_of=lambda subject: subject.split(",")[0]
    )
    met, far = await meet(listener, trusting(authority, own))
    assert met.user == "CN=app"
    assert met.transport.security.subject.startswith("CN=app,OU=")
    far.close()
    met.transport.close()


@pytest.mark.parametrize("shown", [True, False])
async def test_a_client_is_refused_that_no_rule_maps_or_that_shows_no_certificate(
    authority, event_loop, shown
):
    """It never becomes ANONYMOUS."""
    own = authority.issue("app", common_name="app")
    listener = listener_of(authority, event_loop, auth="required", user_of=lambda _: None)
    with pytest.RaisesGroup(HandshakeError, OSError) as caught:
        await meet(listener, trusting(authority, own if shown else None))
    words = "no principal mapping rule" if shown else "peer did not return a certificate"
    assert words in str(caught.value.exceptions)


@pytest.mark.parametrize(("name", "node"), [("KAFKA.test", None), ("broker-4.Kafka.test", 4)])
async def test_with_server_names_the_name_selects_the_node(authority, event_loop, name, node):
    """The port selects none."""
    met, far = await meet(
        listener_of(authority, event_loop, names=NAMES), trusting(authority), name
    )
    assert met.node_id == node
    far.close()
    met.transport.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["broker-5.kafka.test", "kafka.other", None])
async def test_a_wrong_server_name_and_none_is_refused_in_the_handshake(
    authority, event_loop, name, version
):
    """The client gets the alert unrecognized_name, before any certificate; the log has the name that it asked for."""
    client = trusting(authority)
    client.maximum_version = version
    client.check_hostname = False
    with pytest.RaisesGroup(HandshakeError, ssl.SSLError) as caught:
        await meet(listener_of(authority, event_loop, names=NAMES), client, name)
    said = str(caught.value.exceptions)
    assert "UNRECOGNIZED_NAME" in said
    assert ("no server name" if name is None else f"'{name}' (SNI), which is no broker") in said


@pytest.mark.parametrize(
    "name",
    [b"\xe4.kafka.test", "😀.test".encode(), b"a" * 250, b"\x1b[2J\n", b"broker-4.kafka.test."],
)
async def test_a_strange_server_name_is_refused_with_its_cause_and_nothing_else(
    authority, event_loop, name, monkeypatch
):
    """Python decodes the name before a callback of ours; the reason is short and printable all the same."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # tests/proxy/telemetry has ours
    listener = listener_of(authority, event_loop, names=ServerNames("kafka.test", {}))
    far, near = tcp_pair()
    near.setblocking(False)
    far.sendall(hello_asking_for(name))
    with pytest.raises(HandshakeError, match=r"\(SNI\)") as caught:
        await listener.secure(near, None, "")
    said = str(caught.value)
    assert said.isascii()
    assert said.isprintable()
    assert len(said) < 400
    far.close()


async def test_a_resumed_session_does_not_bring_the_node_of_another_name(authority, event_loop):
    """A client of TLS 1.3 may show the session of one broker to another."""
    listener = listener_of(authority, event_loop, names=NAMES)
    client = trusting(authority)
    first, far = await meet(listener, client, "kafka.test")
    session = far.session
    far.close()
    first.transport.close()
    wrap = client.wrap_socket
    client.wrap_socket = lambda sock, server_hostname: wrap(
        sock, server_hostname=server_hostname, session=session
    )
    second, far = await meet(listener, client, "broker-4.kafka.test")
    assert second.node_id == 4
    far.close()
    second.transport.close()


async def test_a_new_certificate_is_shown_from_then_on(authority, event_loop, tmp_path):
    """Connections that are open keep theirs."""
    listener = listener_of(authority, event_loop)
    first, far = await meet(listener, trusting(authority))
    before = far.getpeercert()["serialNumber"]
    own = authority.issue("kafka.test", file_name="renewed")
    listener.use(server_context(str(own.cert_file), str(own.key_file)))
    second, other = await meet(listener, trusting(authority))
    assert other.getpeercert()["serialNumber"] != before
    first.transport.send(b"y")
    assert far.recv(1) == b"y"
    for each in (far, other, first.transport, second.transport):
        each.close()


EXAMPLE = ServerNames("Kafka.example.com", {0: "broker-0.example.com", 12: "Broker-12.example.com"})


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("kafka.example.com", None),
        ("KAFKA.example.com.", None),
        ("broker-0.example.com", 0),
        ("BROKER-12.EXAMPLE.com", 12),
    ],
)
def test_a_name_selects_a_node_or_the_bootstrap_in_any_case(name, node):
    """A dot at the end is the same name."""
    assert EXAMPLE.knows(name)
    assert EXAMPLE.node_of(name) == node


@pytest.mark.parametrize(
    "name",
    [
        None,
        "",
        "example.com",
        "broker-1.example.com",
        "broker-00.example.com",
        "a.broker-0.example.com",
    ],
)
def test_any_other_name_and_none_at_all_is_not_known(name):
    """No name is mapped by its form alone."""
    assert not EXAMPLE.knows(name)
