"""Where the keys for tokens come from: a file, or an address (https) that is asked in a thread.

- An answer is bounded in size and time; redirects are not followed, and its words are never repeated.
- The address may need a certificate authority of its own and a token of ours: Kubernetes' does.

Source: Kafka's `JwksFileVerificationKeyResolver`, `RefreshingHttpsJwks`.
"""

from __future__ import annotations

import time
from typing import Final

from proxy.config.small_files import FileError, read_secret, read_small_file
from proxy.tokens.key_set import MAX_BYTES, KeySetError

TIMEOUT_S: Final = 5.0
"""For the connection, and for each read."""
TOTAL_TIMEOUT_S: Final = 10.0
"""For the whole answer."""
EXPECTED: Final = "a JSON Web Key Set (RFC 7517)"
_PIECE_BYTES: Final = 8 << 10


def is_address(jwks: str) -> bool:
    """Return whether this setting is an address; else it is a file."""
    return "://" in jwks


def read_keys(jwks: str, ca_file: str = "", token_file: str = "") -> bytes:
    """Return the text of the keys; blocks. Raises FileError and KeySetError."""
    if is_address(jwks):
        return _ask(jwks, ca_file, token_file)
    return read_small_file(jwks, MAX_BYTES, EXPECTED)


def _ask(url: str, ca_file: str, token_file: str) -> bytes:
    import requests  # noqa: PLC0415 - 8 MB, only with an address
    import urllib3  # noqa: PLC0415 - as above

    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if token_file:
        try:
            headers["Authorization"] = f"Bearer {read_secret(token_file).reveal()}"
        except FileError as error:
            raise KeySetError(f"jwks_token_file: {error}") from None
    started, body = time.monotonic(), bytearray()
    try:
        with requests.get(
            url,
            headers=headers,
            timeout=TIMEOUT_S,
            verify=ca_file or True,
            allow_redirects=False,
            stream=True,
        ) as response:
            if response.status_code != 200:
                raise KeySetError(f"HTTP status {response.status_code}")
            while piece := response.raw.read1(_PIECE_BYTES):  # what has come: a trickle is noticed
                body += piece
                if len(body) > MAX_BYTES:
                    raise KeySetError(f"an answer of more than {MAX_BYTES} bytes")
                if time.monotonic() - started > TOTAL_TIMEOUT_S:
                    raise KeySetError("the answer is too slow")
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        why = type(error).__name__  # its text may have the address, and more
        raise KeySetError(why) from None
    return bytes(body)
