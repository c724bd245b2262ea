"""The readers of SASL: Kafka's two messages, and the user names inside the mechanisms' messages."""

import datetime as dt
import io
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from tests.support.messages.every_case import for_each
from wire import sasl
from wire.api_keys import ApiKey
from wire.errors import WireError

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
TOKENS = st.binary(max_size=300)
VERSIONS = st.sampled_from((0, 1, 2))


def encoded(entity: object) -> bytes:
    """Return the message as kio encodes it."""
    out = io.BytesIO()
    entity_writer(type(entity))(out, entity)
    return out.getvalue()


def authenticate_body(version: int, token: bytes) -> bytes:
    """Return a SaslAuthenticate request, as kio writes it."""
    return encoded(load_request_schema(ApiKey.SASL_AUTHENTICATE, version)(auth_bytes=token))


def reply_body(version: int, error: int, message: str | None, token: bytes, life_ms: int) -> bytes:
    """Return a SaslAuthenticate response, as kio writes it."""
    lifetime = {"session_lifetime": dt.timedelta(milliseconds=life_ms)} if version else {}
    return encoded(
        load_response_schema(ApiKey.SASL_AUTHENTICATE, version)(
            error_code=KioErrorCode(error), error_message=message, auth_bytes=token, **lifetime
        )
    )


def saslname(name: str) -> bytes:
    """Return a name as SCRAM escapes it."""
    return name.replace("=", "=3D").replace(",", "=2C").encode()


# --- Kafka's messages ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_names_its_mechanism(version: int) -> None:
    """Both versions of SaslHandshake have the one field."""
    schema = load_request_schema(ApiKey.SASL_HANDSHAKE, version)
    assert sasl.mechanism(encoded(schema(mechanism="SCRAM-SHA-256"))) == "SCRAM-SHA-256"


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("error", [0, 33, 34])
def test_a_handshake_reply_begins_with_its_error(version: int, error: int) -> None:
    """The list of supported mechanisms after the error is not read."""
    schema = load_response_schema(ApiKey.SASL_HANDSHAKE, version)
    body = encoded(schema(error_code=KioErrorCode(error), mechanisms=("PLAIN",)))
    assert sasl.handshake_error(body) == error


@given(VERSIONS, TOKENS, st.binary(max_size=9))
def test_a_token_is_read_as_it_was_written(version: int, token: bytes, behind: bytes) -> None:
    """Bytes after the fields are ignored, as in Kafka."""
    assert sasl.auth_bytes(authenticate_body(version, token) + behind, version) == token


@given(VERSIONS, st.none() | st.text(max_size=20), TOKENS, st.integers(0, 2**40))
def test_a_successful_reply_is_read_whole(
    version: int, message: str | None, token: bytes, life_ms: int
) -> None:
    """From v1 on it has the session's lifetime (KIP-368)."""
    body = reply_body(version, 0, message, token, life_ms)
    reply = sasl.authenticate_reply(body, version)
    assert reply == (0, token, life_ms if version else 0)


@given(VERSIONS, st.binary(max_size=20))
def test_only_the_code_of_a_refusal_is_read(version: int, behind: bytes) -> None:
    """Any bytes may follow the code of a refusal."""
    assert sasl.authenticate_reply(pack(">h", 58) + behind, version) == (58, b"", 0)


@for_each(
    [
        lambda: sasl.mechanism(b""),
        lambda: sasl.mechanism(b"\xff\xff"),
        lambda: sasl.mechanism(b"\x00\x06PLAIN"),
        lambda: sasl.mechanism(b"\x00\x01\xff"),
        lambda: sasl.handshake_error(b"\x00"),
        lambda: sasl.auth_bytes(b"\xff\xff\xff\xff", 1),
        lambda: sasl.auth_bytes(b"\x00\x00\x00\x02x", 1),
        lambda: sasl.auth_bytes(b"\x00", 2),
        lambda: sasl.auth_bytes(b"\x03x", 2),
        lambda: sasl.authenticate_reply(b"\x00\x00\xff\xff\x00\x00\x00\x00", 1),
        lambda: sasl.authenticate_reply(b"\x00\x00\xff\xff\xff\xff\xff\xff", 0),
    ]
)
def test_cut_and_null_fields_are_refused(read) -> None:
    """Only the error message may be null, and no field may extend beyond the body."""
    with pytest.raises(WireError):
        read()


@given(VERSIONS, st.data())
def test_a_reader_never_reads_past_the_body(version: int, data: st.DataObject) -> None:
    """A request or a successful reply cut anywhere is malformed; missing fields get no default."""
    request = authenticate_body(version, b"token")
    reply = reply_body(version, 0, "said", b"token", 7)
    tags = version == 2  # the empty tag section at the end is not read
    with pytest.raises(WireError):
        sasl.auth_bytes(request[: data.draw(st.integers(0, len(request) - 1 - tags))], version)
    with pytest.raises(WireError):
        sasl.authenticate_reply(reply[: data.draw(st.integers(0, len(reply) - 1 - tags))], version)


# --- PLAIN ---------------------------------------------------------------------------------------


@given(st.just("") | NAMES, NAMES, st.binary(min_size=1))
def test_plain_names_are_read_as_they_were_written(
    authzid: str, authcid: str, password: bytes
) -> None:
    """A name is any UTF-8 without NUL; a password is any bytes."""
    message = b"\0".join((authzid.encode(), authcid.encode(), password))
    assert sasl.plain_names(message) == (authzid, authcid)


@pytest.mark.parametrize("message", [b"", b"alice", b"alice\0secret", b"\0\0secret", b"\0\xff\0x"])
def test_a_plain_message_without_a_name_is_refused(message: bytes) -> None:
    """It has at least two NULs and a name between them. Some Kafkas accept more NULs, and then so does Sluice."""
    with pytest.raises(WireError):
        sasl.plain_names(message)
    assert sasl.plain_names(b"\0alice\0secret\0more") == ("", "alice")


# --- SCRAM ---------------------------------------------------------------------------------------


@given(
    st.sampled_from((b"n", b"y", b"p=tls-unique")),
    st.just("") | NAMES,
    st.sampled_from((b"", b"m=what=ever,")),
    NAMES,
    st.sampled_from((b"", b",x=y", b",tokenauth=false", b",x=tokenauth=true")),
)
def test_scram_names_are_read_as_they_were_written(
    flag: bytes, authzid: str, reserved: bytes, name: str, extensions: bytes
) -> None:
    """Commas and equals signs are escaped, other fields may
    surround the name, and the authzid is returned as written.
    """
    written = b"a=" + saslname(authzid) if authzid else b""
    message = b"%s,%s,%sn=%s,r=fyko%s" % (flag, written, reserved, saslname(name), extensions)
    assert sasl.scram_first(message) == (saslname(authzid).decode(), name, False)


@pytest.mark.parametrize(
    ("name", "means"),
    [
        (b"a=2Cb", "a,b"),
        (b"a=3Db", "a=b"),
        (b"=3D2C", "=2C"),
        (b"=2C=3D", ",="),
        (b"=3D=3D3D", "==3D"),
    ],
)
def test_escapes_are_undone_once(name: bytes, means: str) -> None:
    """The name is unescaped once, as in Kafka's ScramFormatter.username; the result is not unescaped again."""
    assert sasl.scram_first(b"n,,n=%s,r=x" % name).username == means


WRONG_NAMES = (b"", b"a=b", b"a=", b"=2c", b"=3d", b"=2", b"==2C", b"\0", b"\xff")


@for_each(
    [
        b"",
        b"n,,n=alice",
        b"x,,n=alice,r=x",
        b"n,alice,n=alice,r=x",
        b"n,,alice,r=x",
        b"n,,r=x,n=alice",
        b"n,,n=alice,x=x",
        b"n,,m=a,m=b,n=alice,r=x",
        b"n,n=alice,r=x",
        b"c=biws,r=x,p=cHJvb2Y=",
        *(b"n,,n=%s,r=x" % name for name in WRONG_NAMES),
    ]
)
def test_a_wrong_first_message_is_refused(message: bytes) -> None:
    """The fields have a fixed order, none may be missing, and a name has no bare equals sign, NUL or other bytes."""
    with pytest.raises(WireError):
        sasl.scram_first(message)


@pytest.mark.parametrize(
    ("extensions", "by_token"),
    [
        (b",tokenauth=true", True),
        (b",tokenauth=TRUE", True),
        (b",x=y,tokenauth=true", True),
        (b",tokenauth=false,tokenauth=true", True),
        (b",tokenauth=true,tokenauth=false", False),
        (b",tokenauth=yes", False),
        (b",Tokenauth=true", False),
        (b",tokenauth", False),
    ],
)
def test_a_delegation_token_is_told_from_a_user(extensions, by_token) -> None:
    """The last tokenauth field counts, with "true" in any case, as in Kafka's ScramExtensions."""
    assert sasl.scram_first(b"n,,n=alice,r=x" + extensions).by_token is by_token


def test_no_error_message_repeats_the_bytes_received() -> None:
    """They may be a password in the wrong field."""
    for read, data in (
        (sasl.plain_names, b"hunter2"),
        (sasl.scram_first, b"n,,n=hunter2=,r=hunter2"),
        (sasl.mechanism, b"\x00\x09hunter2"),
    ):
        with pytest.raises(WireError) as raised:
            read(data)
        assert "hunter2" not in str(raised.value)


@given(st.text(st.characters(codec="utf-8"), max_size=40), TOKENS, st.integers(0, 2**31 - 1))
def test_our_requests_are_read_as_such(name: str, token: bytes, correlation_id: int) -> None:
    """The frame has its size, the header of v1 with our client id, and the mechanism or the token."""
    mechanism = encoded(load_request_schema(ApiKey.SASL_HANDSHAKE, 1)(mechanism=name))
    for key, frame, body in (
        (ApiKey.SASL_HANDSHAKE, sasl.handshake_request(name, correlation_id), mechanism),
        (
            ApiKey.SASL_AUTHENTICATE,
            sasl.authenticate_request(token, correlation_id),
            authenticate_body(1, token),
        ),
    ):
        assert frame[:12] == pack(">ihhi", len(frame) - 4, key, 1, correlation_id)
        assert frame[12:20] == b"\0\6sluice"
        assert frame[20:] == body


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=64))
def test_the_mechanisms_of_a_handshake_are_read(names: list[str]) -> None:
    """All names are returned, with the error code."""
    body = encoded(
        load_response_schema(ApiKey.SASL_HANDSHAKE, 1)(
            error_code=KioErrorCode(33), mechanisms=tuple(names)
        )
    )
    assert sasl.handshake_reply(body) == (33, tuple(names))
    with pytest.raises(WireError):
        sasl.handshake_reply(body[:-1])


@pytest.mark.parametrize("count", [-1, 65, 2**31 - 1])
def test_too_many_mechanisms_are_refused(count: int) -> None:
    """Null and more than 64 are malformed."""
    with pytest.raises(WireError):
        sasl.handshake_reply(pack(">hi", 0, count) + bytes(200))
