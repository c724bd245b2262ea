"""Secrets in memory are never shown, encoded or copied."""

import copy
import json
import pickle
import traceback

import msgspec
import pytest
import structlog

from proxy.core.auth.secret_text import Secret

CANARY = "canary-8d1f6a70c2"


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        "{}".format,
        "{:>40}".format,
        "{!r:s}".format,
        lambda secret: "%s %r" % (secret, secret),  # noqa: UP031 - one of the ways to show it
        lambda secret: repr([secret, {"password": secret}]),
        lambda secret: str(ValueError(secret)),
        lambda secret: structlog.processors.JSONRenderer()(None, "", {"password": secret}),
        lambda secret: structlog.dev.ConsoleRenderer()(
            None, "", {"event": "e", "password": secret}
        ),
    ],
)
def test_no_way_to_show_a_secret_has_its_text(show: object) -> None:
    """Printing, formatting and logging show that there is a secret, and no part of it."""
    assert callable(show)
    shown = str(show(Secret(CANARY)))
    assert "Secret(...)" in shown
    assert CANARY not in shown


def test_a_traceback_with_local_variables_has_no_secret() -> None:
    """A dump of tasks shows the variables of a frame by `repr`."""

    def fail(password: Secret) -> None:
        raise RuntimeError(f"no user for {password}")

    try:
        fail(Secret(CANARY))
    except RuntimeError as error:
        lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
        text = "".join(lines)
    assert "Secret(...)" in text
    assert CANARY not in text


@pytest.mark.parametrize(
    "encode",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        json.dumps,
        msgspec.json.encode,
        msgspec.to_builtins,
        hash,
        vars,
    ],
)
def test_a_secret_cannot_be_encoded_or_copied(encode: object) -> None:
    """Each of these raises TypeError, and the error does not have the text."""
    assert callable(encode)
    with pytest.raises(TypeError) as caught:
        encode(Secret(CANARY))
    assert CANARY not in str(caught.value)


def test_secrets_can_be_compared() -> None:
    """A rotated secret differs from the one before; a secret does not equal its text."""
    assert Secret("a\u00e9") == Secret("a\u00e9")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
