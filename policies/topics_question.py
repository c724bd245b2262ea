"""TopicsQuestion: the key of a Hold by which a policy asks the broker whether topics exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wire.topic_existence import ExistingTopic

MAX_NAMES: Final = 1_000
"""Names in one question; a policy does not ask for more."""


class TopicsQuestion:
    """Asks whether these topics exist. A request that is held for it is judged again when the broker has answered.

    The question goes to the broker of the same session, and creates no topic. Hold a request for it once only.
    """

    __slots__ = ("found", "names", "with_ids")

    def __init__(self, names: tuple[str, ...], *, with_ids: bool = False) -> None:
        self.names = names
        self.with_ids = with_ids
        """Whether the ids of the topics are asked for: a broker before 2.8 has none, and does not answer."""
        self.found: Mapping[str, ExistingTopic | None] = {}
        """What the broker has said, by name; None: there is no such topic. A name that is not in it was not told."""

    def __str__(self) -> str:
        """Return what traces show."""
        return "topics_exist"
