"""A broker that accepts every login."""

import struct

from tests.support.faults.stub_broker import body_of
from tests.support.messages import frames as f
from tests.support.messages import sasl


def yes(request: bytes) -> bytes | None:
    """Accepts every request, and plays SCRAM without knowing any password."""
    key, version, ident = struct.unpack_from(">hhi", request, 4)
    if key == f.SASL_HANDSHAKE:
        return sasl.handshake_reply(ident)
    if key == f.SASL_AUTHENTICATE:
        token = body_of(request)[4:]
        answer = b""
        if token.startswith(b"n,"):
            answer = sasl.SERVER_FIRST
        elif token.startswith(b"c="):
            answer = sasl.SERVER_FINAL
        return sasl.authenticate_reply(ident, answer, version=version)
    if key == f.METADATA:
        return f.metadata_reply(ident, [])
    return None
