"""The arithmetic and the messages of SCRAM, for both of its sides.

- Passwords are UTF-8 and not normalized further: Kafka does not apply SASLprep either.
- Channel binding is not offered (`n`), as in Kafka.
- `salted_password` takes milliseconds (PBKDF2), so it does not belong on the event loop. All other functions are cheap.
- Nonces and salts are arguments: this module has no source of random numbers.

Sources: RFC 5802, RFC 7677; Kafka's `ScramMechanism`, `ScramFormatter`, `ScramMessages`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from hmac import compare_digest, digest
from typing import Final, NamedTuple

from wire.errors import WireError
from wire.sasl import ScramFirst, scram_first

MIN_ITERATIONS: Final = 4096
"""The fewest that Kafka's clients accept, and brokers store."""
MAX_ITERATIONS: Final = 1_000_000
"""The most that Sluice computes: about half a second. Kafka's brokers store at most 16384."""
MAX_SALT_BYTES: Final = 1024

GS2_HEADER: Final = "n,,"
"""No channel binding, and no other identity to act as."""
_CHANNEL: Final = b64encode(GS2_HEADER.encode()).decode()
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]+)*"
_CLIENT_FIRST: Final = re.compile(rf"n,[^,]*,(n=[^,]+,r=({_PRINTABLE}){_EXTENSIONS})".encode())
_SERVER_FIRST: Final = re.compile(
    rf"r=({_PRINTABLE}),s=([A-Za-z0-9/+]+={{0,2}}),i=([0-9]{{1,10}}){_EXTENSIONS}"
)
_SERVER_FINAL: Final = re.compile(rf"v=([A-Za-z0-9/+]+={{0,2}}){_EXTENSIONS}")
_CLIENT_FINAL: Final = re.compile(
    rf"(c=([A-Za-z0-9/+]+={{0,2}}),r=({_PRINTABLE}){_EXTENSIONS}),p=([A-Za-z0-9/+]+={{0,2}})"
)


class ScramError(ValueError):
    """A message of SCRAM is malformed, or has a value outside its range. The text contains no secret."""


class ScramMechanism(NamedTuple):
    """One member of the SCRAM family. `digest` is hashlib's name of its hash function."""

    name: str
    digest: str

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """Return the keyed hash of `data`."""
        return digest(key, data, self.digest)

    def hash(self, data: bytes) -> bytes:
        """Return the hash of `data`."""
        return new_hash(self.digest, data).digest()


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", "sha512")
MECHANISMS: Final = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}


# --- the arithmetic ----------------------------------------------------------------------------


class StoredKeys(NamedTuple):
    """The keys that a server keeps instead of a password. A client cannot authenticate with it."""

    stored_key: bytes
    server_key: bytes


def salted_password(
    mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int
) -> bytes:
    """Return the secret from which all keys are derived (`Hi` in RFC 5802). It takes milliseconds."""
    return pbkdf2_hmac(mechanism.digest, password, salt, iterations)


def stored_keys(mechanism: ScramMechanism, salted: bytes) -> StoredKeys:
    """Return a server's keys for this salted password."""
    client_key = mechanism.hmac(salted, b"Client Key")
    return StoredKeys(mechanism.hash(client_key), mechanism.hmac(salted, b"Server Key"))


def auth_message(client_first_bare: str, server_first: str, client_final_bare: str) -> bytes:
    """Return what both sides sign: the first messages without the GS2 header, and the client's last without proof."""
    return f"{client_first_bare},{server_first},{client_final_bare}".encode()


def client_proof(mechanism: ScramMechanism, salted: bytes, message: bytes) -> bytes:
    """Return the proof that the client knows the password. `message` is an `auth_message`."""
    client_key = mechanism.hmac(salted, b"Client Key")
    return _xor(client_key, mechanism.hmac(mechanism.hash(client_key), message))


def is_proof(mechanism: ScramMechanism, stored_key: bytes, message: bytes, proof: bytes) -> bool:
    """Return whether `proof` was made with the password of `stored_key`; the time does not depend on its bytes."""
    signature = mechanism.hmac(stored_key, message)
    if len(proof) != len(signature):
        return False
    return compare_digest(mechanism.hash(_xor(signature, proof)), stored_key)


def server_signature(mechanism: ScramMechanism, server_key: bytes, message: bytes) -> bytes:
    """Return the proof that the server knows the user's keys."""
    return mechanism.hmac(server_key, message)


def is_signature(
    mechanism: ScramMechanism, salted: bytes, message: bytes, signature: bytes
) -> bool:
    """Return whether `signature` is that of a server that knows the keys of this salted password."""
    server_key = stored_keys(mechanism, salted).server_key
    return compare_digest(server_signature(mechanism, server_key, message), signature)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# --- the messages, in order ----------------------------------------------------------------------


class ClientFirst(NamedTuple):
    """The client's first message. `bare` is all of it after the GS2 header, as it was received."""

    names: ScramFirst
    nonce: str
    bare: str


class ServerFirst(NamedTuple):
    """The server's first message. `nonce` is the client's with the server's after it."""

    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """The client's last message. `bare` is all of it before the proof, as it was received."""

    channel: bytes
    nonce: str
    proof: bytes
    bare: str


def saslname(name: str) -> str:
    """Return `name` with its commas and equals signs escaped."""
    return name.replace("=", "=3D").replace(",", "=2C")


def client_first_bare(name: str, nonce: str) -> str:
    """Return the client's first message without the GS2 header."""
    return f"n={saslname(name)},r={nonce}"


def read_client_first(message: bytes) -> ClientFirst:
    """Return what the client's first message says. Raises ScramError if it is malformed, demands channel binding or
    has an extension that RFC 5802 reserves (`m=`).
    """
    bare = _CLIENT_FIRST.fullmatch(message)
    if bare is None:
        raise ScramError("SCRAM: the client's first message is malformed")
    try:
        names = scram_first(message)
    except WireError as error:
        raise ScramError(str(error)) from None
    return ClientFirst(names, bare.group(2).decode(), bare.group(1).decode())


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """Return the server's first message; `nonce` is the client's with the server's after it."""
    return f"r={nonce},s={b64encode(salt).decode()},i={iterations}"


def read_server_first(message: bytes, client_nonce: str) -> ServerFirst:
    """Return what the server's first message says. Raises ScramError if it is malformed, is no answer to
    `client_nonce`, or asks for another number of iterations than MIN_ITERATIONS..MAX_ITERATIONS.
    """
    found = _match(_SERVER_FIRST, message, "server's first message")
    nonce, salt, count = found.group(1), _base64(found.group(2), "salt"), int(found.group(3))
    if len(nonce) <= len(client_nonce) or not nonce.startswith(client_nonce):
        raise ScramError("SCRAM: the server's nonce does not extend the client's")
    if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
        expected = f"{MIN_ITERATIONS}..{MAX_ITERATIONS}"
        raise ScramError(f"SCRAM: the server asks for {count} iterations, expected {expected}")
    if len(salt) > MAX_SALT_BYTES:
        raise ScramError(f"SCRAM: the salt has {len(salt)} bytes, expected 1..{MAX_SALT_BYTES}")
    return ServerFirst(nonce, salt, count)


def client_final_bare(nonce: str) -> str:
    """Return the client's last message without the proof."""
    return f"c={_CHANNEL},r={nonce}"


def client_final(bare: str, proof: bytes) -> str:
    """Return the client's last message."""
    return f"{bare},p={b64encode(proof).decode()}"


def read_client_final(message: bytes) -> ClientFinal:
    """Return what the client's last message says. Raises ScramError if it is malformed."""
    found = _match(_CLIENT_FINAL, message, "client's last message")
    channel, proof = _base64(found.group(2), "channel"), _base64(found.group(4), "proof")
    return ClientFinal(channel, found.group(3), proof, found.group(1))


def server_final(signature: bytes) -> str:
    """Return the server's last message, after a correct proof."""
    return f"v={b64encode(signature).decode()}"


def read_server_final(message: bytes) -> bytes:
    """Return the signature in the server's last message. Raises ScramError if it has another form."""
    return _base64(_match(_SERVER_FINAL, message, "server's last message").group(1), "signature")


def _match(pattern: re.Pattern[str], message: bytes, what: str) -> re.Match[str]:
    try:
        found = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise ScramError(f"SCRAM: the {what} is malformed")
    return found


def _base64(text: str, what: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise ScramError(f"SCRAM: the {what} is not valid base64") from None
