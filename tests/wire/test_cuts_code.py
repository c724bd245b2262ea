"""The code that cuts listings is bounded: it steps over what it cannot cut, and never beyond the end."""

from itertools import product

import pytest

from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known
from wire.apis import Api, ApiKey
from wire.cuts_code import source
from wire.errors import WireError
from wire.listing_cuts import LISTED, TOOLS, Keeps, cut, layout_of_reply

LISTINGS = [api for api in apis_known() if api.key in LISTED]
KEEPS = Keeps(lambda _: True, lambda _: True, lambda _: None)


@for_each(product(LISTINGS, [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff" * 40]))
def test_an_announced_array_costs_nothing_before_its_elements(api: Api, count: bytes) -> None:
    """A count of two thousand million is refused at once, wherever it stands."""
    for at in range(30):
        with pytest.raises(WireError):
            cut(api, bytes(at) + count + b"\x7f" * 40, KEEPS)


def test_elements_of_one_width_are_stepped_over_together() -> None:
    """A loop over them would read nothing, and so would not end where the body ends."""
    log_dirs = api_of(ApiKey.DESCRIBE_LOG_DIRS, 1)
    topic = b"\0\1/" + b"\0\0\0\1" + b"\0\1a" + b"\x7f\xff\xff\xff"
    with pytest.raises(WireError):
        cut(log_dirs, bytes(4) + b"\0\0\0\1" + b"\0\0" + topic, KEEPS)


@for_each(LISTINGS)
def test_the_code_uses_its_tools_only(api: Api) -> None:
    """It is made from the layout, and nothing of a reply is in it."""
    layout = layout_of_reply(api)
    assert layout is not None
    code = compile(source(api, layout), "<code>", "exec").co_consts[0]
    assert set(code.co_names) <= TOOLS.keys() | {
        "topic", "group", "append", "decode", "nameless", "topic_id", "len", "range", "bytes",
    }  # fmt: skip
