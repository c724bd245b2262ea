"""The data of a session."""

import ast
from collections import defaultdict

from proxy.core.session.exchange import ObservedExchange, new_observed
from proxy.core.session.link import Link
from proxy.core.session.session import Session
from proxy.core.turns import ScheduledSession
from tests.support.core.sessions import Wire
from tests.support.house.house import ROOT, files_below
from tests.support.messages import frames as f

SEVERAL_WRITERS = {
    "reply_walk": "the module of this name, and `reply_stream`, which ends it without a call",
    "sample_left": "`sampling`, and `fast_requests`, which counts down without a call",
    "settled": "the two fast loops, and `session` before them",
    "uncounted": "`crowding`, and `fast_requests` where a call would cost more than the request",
}


def slots_written(module: ast.Module, *, is_session: bool) -> set[str]:
    """Return the slots of Link that a module assigns. `is_session`: `self` is a Link there."""
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            name = getattr(node.value, "id", getattr(node.value, "attr", None))
            is_link = name in {"link", "_link", "session"} or (is_session and name == "self")
            if is_link and node.attr in Link.__slots__:
                found.add(node.attr)
    return found


def test_each_slot_has_one_writer() -> None:
    """Beside the methods of Link itself, one module assigns it; all others only read it."""
    writers = defaultdict(set)
    for path in files_below(ROOT / "proxy"):
        if path.suffix == ".py" and path.stem != "link":
            module = ast.parse(path.read_text("utf-8"))
            for slot in slots_written(module, is_session=path.stem == "session"):
                writers[slot].add(path.stem)
    assert {slot for slot, modules in writers.items() if len(modules) > 1} == set(SEVERAL_WRITERS)


def test_a_session_has_slots_only_and_each_of_them_is_set_from_the_beginning() -> None:
    """A slot that is never set is None in the compiled build, and an AttributeError in the source."""
    session = Wire().session
    assert not hasattr(session, "__dict__")
    for name in (*ScheduledSession.__slots__, *Link.__slots__, *Session.__slots__):
        assert hasattr(session, name), name


def test_an_exchange_of_the_fast_path_has_every_slot_that_another_has() -> None:
    """It is made without the constructor, which sets the same values."""
    (plan,) = Wire().client(f.beat(1)).session.plans.by_kind.values()
    made = ObservedExchange(plan, 7, 20, 3_000, 5)
    quick = new_observed(ObservedExchange, plan, 7, 20, 3_000, 3, 5)
    for kind in ObservedExchange.__mro__[:-1]:
        for name in kind.__slots__:
            assert getattr(made, name, "unset") == getattr(quick, name, "unset"), name
