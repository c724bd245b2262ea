"""SCRAM's arithmetic and messages: the figures of the RFCs, of Kafka's tests, and of another implementation."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient

from proxy.core.auth import scram
from proxy.core.auth.scram import (
    MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramError,
    ScramMechanism,
)
from wire.sasl import ScramFirst, scram_first

RFC_5802 = (
    ScramMechanism("SCRAM-SHA-1", "sha1"),
    "fyko+d2lbbFgONRv9qkxdawL",
    "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = (
    SCRAM_SHA_256,
    "rOprNGfwEbeRWgbNEkqO",
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
"""User `user`, password `pencil`; Kafka's ScramFormatterTest has the same figures."""


@pytest.mark.parametrize("vector", [RFC_5802, RFC_7677], ids=["RFC 5802", "RFC 7677"])
def test_both_sides_compute_the_figures_of_the_rfc(
    vector: tuple[ScramMechanism, str, str, str, str],
) -> None:
    """Client and server compute the messages of the RFC's example, byte for byte."""
    mechanism, nonce, server_first, client_final, server_final = vector
    first = scram.read_server_first(server_first.encode(), nonce)
    assert scram.server_first(first.nonce, first.salt, first.iterations) == server_first
    bare = scram.client_final_bare(first.nonce)
    message = scram.auth_message(scram.client_first_bare("user", nonce), server_first, bare)
    salted = scram.salted_password(mechanism, b"pencil", first.salt, first.iterations)
    proof = scram.client_proof(mechanism, salted, message)
    assert scram.client_final(bare, proof) == client_final
    keys = scram.stored_keys(mechanism, salted)
    assert scram.is_proof(mechanism, keys.stored_key, message, proof)
    signature = scram.server_signature(mechanism, keys.server_key, message)
    assert scram.server_final(signature) == server_final
    assert scram.is_signature(
        mechanism, salted, message, scram.read_server_final(server_final.encode())
    )


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda each: each.name)
def test_kafka_python_and_our_server_accept_each_other(mechanism: ScramMechanism) -> None:
    """An independent client accepts our server's messages, and its proof is accepted."""
    client = ScramClient("alice", "p,=ä", mechanism.name)
    first = scram.read_client_first(client.first_message())
    assert first.names == ScramFirst("", "alice", by_token=False)
    nonce, salt = first.nonce + "of-the-server", b"0123456789abcdef"
    server_first = scram.server_first(nonce, salt, 4096)
    client.process_server_first_message(server_first.encode())
    final = scram.read_client_final(client.final_message())
    assert (final.channel, final.nonce) == (scram.GS2_HEADER.encode(), nonce)
    salted = scram.salted_password(mechanism, "p,=ä".encode(), salt, 4096)
    keys = scram.stored_keys(mechanism, salted)
    message = scram.auth_message(first.bare, server_first, final.bare)
    assert scram.is_proof(mechanism, keys.stored_key, message, final.proof)
    signature = scram.server_signature(mechanism, keys.server_key, message)
    client.process_server_final_message(scram.server_final(signature).encode())  # or raises


def test_a_proof_or_signature_with_any_bit_changed_is_refused() -> None:
    """A proof or signature that differs in one bit or in length is refused."""
    salted = scram.salted_password(SCRAM_SHA_512, b"secret", b"salt", 1)
    keys, message = scram.stored_keys(SCRAM_SHA_512, salted), b"n=u,r=a,r=ab,c=biws"
    proof = scram.client_proof(SCRAM_SHA_512, salted, message)
    signature = scram.server_signature(SCRAM_SHA_512, keys.server_key, message)
    for bit in range(8 * len(proof)):
        flip = (1 << bit).to_bytes(len(proof), "big")
        bad_proof, bad_signature = (
            bytes(a ^ b for a, b in zip(good, flip, strict=True)) for good in (proof, signature)
        )
        assert not scram.is_proof(SCRAM_SHA_512, keys.stored_key, message, bad_proof)
        assert not scram.is_signature(SCRAM_SHA_512, salted, message, bad_signature)
    for other in (b"", proof[:-1], proof + b"\0"):
        assert not scram.is_proof(SCRAM_SHA_512, keys.stored_key, message, other)
    assert not scram.is_signature(SCRAM_SHA_512, salted, message, b"")


def test_the_stored_keys_are_no_proof() -> None:
    """A client that has stolen the server's file cannot authenticate with it (RFC 5802, section 9)."""
    salted = scram.salted_password(SCRAM_SHA_256, b"secret", b"salt", 1)
    keys, message = scram.stored_keys(SCRAM_SHA_256, salted), b"n=u,r=a,r=ab,c=biws"
    for stolen in keys:
        assert not scram.is_proof(SCRAM_SHA_256, keys.stored_key, message, stolen)


@given(st.text(min_size=1, alphabet=st.characters(exclude_characters="\0", codec="utf-8")))
def test_a_name_is_escaped_so_that_the_broker_reads_it_back(name: str) -> None:
    """Every name survives escaping."""
    bare = scram.client_first_bare(name, "nonce")
    assert scram_first(f"{scram.GS2_HEADER}{bare}".encode()).username == name


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("user1", "user1"),
        ("1,2", "1=2C2"),
        ("user=A", "user=3DA"),
        ("user==B", "user=3D=3DB"),
        (",=", "=2C=3D"),
        ("=2C", "=3D2C"),
    ],
)
def test_names_are_escaped_as_kafka_escapes_them(name: str, escaped: str) -> None:
    """Commas and equals signs are escaped as Kafka's ScramFormatterTest has them."""
    assert scram.saslname(name) == escaped


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("r=abc,s=AAAA,i=4096", "does not extend"),
        ("r=ab,s=AAAA,i=4096", "does not extend"),
        ("r=xabcd,s=AAAA,i=4096", "does not extend"),
        ("r=abcd,s=AAAA,i=4095", "asks for 4095 iterations, expected 4096..1000000"),
        ("r=abcd,s=AAAA,i=1000001", "asks for 1000001 iterations, expected 4096..1000000"),
        ("r=abcd,s=AAAA,i=2147483648", "asks for 2147483648 iterations"),
        ("r=abcd,s=AAAA,i=99999999999", "malformed"),
        ("r=abcd,s=AAAA,i=-4096", "malformed"),
        ("r=abcd,s=AAAA,i=4096 ", "malformed"),
        ("r=abcd,s=AAAA", "malformed"),
        ("r=abcd,s=,i=4096", "malformed"),
        ("r=abcd,s=AAAAA,i=4096", "salt is not valid base64"),
        ("r=abcd,s=AA=A,i=4096", "malformed"),
        ("m=x,r=abcd,s=AAAA,i=4096", "malformed"),
        ("r=ab d,s=AAAA,i=4096", "malformed"),
        ("e=other-error", "malformed"),
        ("", "malformed"),
        (f"r=abcd,s={'AAAA' * 400},i=4096", "salt has 1200 bytes, expected 1..1024"),
    ],
)
def test_a_servers_first_message_that_lies_is_refused(message: str, words: str) -> None:
    """A malformed message, a foreign nonce, and counts and salts outside their range are refused."""
    with pytest.raises(ScramError, match=words.replace(".", r"\.")):
        scram.read_server_first(message.encode(), "abc")


def test_an_extension_of_the_server_is_ignored_as_kafka_does() -> None:
    """Unknown extensions at the end of a server's message change nothing."""
    first = scram.read_server_first(b"r=abcd,s=AAAA,i=4096,x=y", "abc")
    assert first == ("abcd", b64decode("AAAA"), 4096)
    assert scram.read_server_final(b"v=AAAA,x=y") == b64decode("AAAA")


@pytest.mark.parametrize(
    "message", [b"", b"v=", b"v=AAAAA", b"e=invalid-proof", b"V=AAAA", b"v=AAAA,", b"\xff"]
)
def test_a_servers_last_message_without_a_signature_is_refused(message: bytes) -> None:
    """An error or a malformed message is never taken for a signature."""
    with pytest.raises(ScramError):
        scram.read_server_final(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=user",
        b"n,,r=nonce,n=user",
        b"y,,n=user,r=nonce",
        b"p=tls-unique,,n=user,r=nonce",
        b"n,,m=must-fail,n=user,r=nonce",
        b"n,x=user,n=user,r=nonce",
        b"n,,n=us=er,r=nonce",
        b"n,,n=user,r=no nce",
        b"n,,n=user,r=",
        b"n,,n=,r=nonce",
        b"n,,n=\xff,r=nonce",
        b"n,,n=user,r=nonce,",
        b"n,,n=user,r=nonce,1=x",
    ],
)
def test_a_malformed_first_message_of_a_client_is_refused(message: bytes) -> None:
    """Wrong order, channel binding, reserved extensions, bad names and bad nonces are refused."""
    with pytest.raises(ScramError):
        scram.read_client_first(message)


@pytest.mark.parametrize(
    "message",
    [b"", b"c=biws,r=ab", b"r=ab,c=biws,p=AAAA", b"c=biws,r=ab,p=A", b"c=biws,r=ab,p=AAAA,x=y"],
)
def test_a_malformed_last_message_of_a_client_is_refused(message: bytes) -> None:
    """A last message without channel, nonce and proof at its end is refused."""
    with pytest.raises(ScramError):
        scram.read_client_final(message)


def test_extensions_of_the_client_are_signed_as_they_were_sent() -> None:
    """The signed message contains the client's extensions."""
    first = scram.read_client_first(b"n,a=user,n=user,r=nonce,tokenauth=true")
    assert first == (
        ScramFirst("user", "user", by_token=True),
        "nonce",
        "n=user,r=nonce,tokenauth=true",
    )
    assert scram.read_client_final(b"c=biws,r=ab,x=y,p=AAAA").bare == "c=biws,r=ab,x=y"
