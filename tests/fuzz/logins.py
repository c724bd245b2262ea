"""Logins of clients: handshakes and tokens, right and wrong, whole and in any order."""

import random
from typing import Final

from tests.support.messages import sasl
from tests.support.shell.sasl_service import NAMES, password_of

_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "none")


def login(chance: random.Random, first_id: int) -> list[bytes]:
    """Return the requests of a login, with correlation ids from `first_id` on."""
    name = chance.choice(NAMES)
    mechanism = chance.choice(_MECHANISMS)
    tokens = [
        chance.choice(
            (
                sasl.plain(name, password_of(name)),
                sasl.plain(name, "wrong"),
                sasl.scram_first(name),
                b"",
                chance.randbytes(chance.choice((20, 3000))),
            )
        )
    ]
    if mechanism.startswith("SCRAM"):
        tokens.append(b"c=biws,r=nonce1,p=AAAA")
    said = [sasl.authenticate(number, token) for number, token in enumerate(tokens, first_id + 1)]
    frames = [sasl.handshake(first_id, mechanism), *said]
    if chance.random() < 0.2:
        chance.shuffle(frames)
    return frames
