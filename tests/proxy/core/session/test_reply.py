"""A reply as policies see it. `test_heard_bodies.py` has those whose bodies they hear."""

import pytest

from policies.verdicts import VerdictError
from proxy.core.session.reply import Reply
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f


def test_a_malformed_reply_has_no_throttle():
    """It reads as 0 and raises nothing in a policy."""
    api = Wire().client(f.beat(1)).session.queue[0].api
    assert Reply(api, 6, bytearray(f.reply(1, b"\x00\x00")), 0, 10).throttle_time_ms == 0


def test_a_body_is_that_of_its_own_frame():
    """The bytes around it are others; a new body makes a new frame and leaves the old one as it is."""
    api = Wire().client(f.beat(1)).session.queue[0].api
    frame = f.reply(1, b"\0\0\0\0\0\x1b")
    buf = bytearray(b"old" + frame + b"rest")
    reply = Reply(api, len(frame) - 4, buf, 3, 3 + len(frame), {})
    assert reply.body == frame[8:]
    errors = reply.errors
    assert errors == {None: 27}
    with pytest.raises(VerdictError, match="is no Heartbeat response v1"):
        reply.replace(b"\0")
    assert (reply.body, reply.changed) == (frame[8:], None)
    reply.replace(frame[8:] + b"more")
    assert reply.changed == f.reply(1, frame[8:] + b"more")
    assert (reply.body, reply.size_bytes) == (frame[8:] + b"more", len(frame))
    assert buf == b"old" + frame + b"rest"
    assert reply.errors is not None
    assert "4 bytes follow" in reply.errors.unread


def test_a_part_of_a_reply_has_no_body():
    """Nor has one that no policy hears; neither can be replaced."""
    api = Wire().client(f.beat(1)).session.queue[0].api
    frame = bytearray(f.reply(1, bytes(6)))
    for reply in (Reply(api, 10, frame, 0, 13, {}), Reply(api, 10, frame, 0, 14)):
        assert (reply.body, reply.errors) == (None, None)
        with pytest.raises(VerdictError, match="too large to be kept"):
            reply.replace(bytes(6))


def test_a_reply_that_has_left_has_no_body():
    """Its buffer belongs to other replies then."""
    api = Wire().client(f.beat(1)).session.queue[0].api
    reply = Reply(api, 10, bytearray(f.reply(1, bytes(6))), 0, 14, {})
    errors = reply.errors
    reply.release()
    assert (reply.body, reply.errors) == (None, None)
    assert errors is not None
    assert "after its hook" in errors.unread
