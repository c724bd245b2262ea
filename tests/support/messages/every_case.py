"""One test for many cases: a check of one API, reader or value runs for each of them in turn.

A failure names its case. Hypothesis plays the same examples of a case each time, whichever other cases there are, and
its profile `quick` plays a quarter of them.
"""

from collections.abc import Callable, Iterable
from zlib import crc32

from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.support.messages.kafka_messages import name
from wire.apis import Api


def for_each(
    cases: Iterable[object], examples: int = 0, of: st.SearchStrategy[object] | None = None
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Turn `check(case)` into a test of all cases, or `check(case, data)` if it wants examples.

    A plain tuple is handed over as several arguments. `data` is a value of the strategy
    `of`, or what `st.data()` gives.
    """
    every = tuple(cases)
    assert every, "no case"

    def test_of(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            for case in every:
                label = name(case) if isinstance(case, Api) else str(case)
                arguments = case if type(case) is tuple else (case,)
                try:
                    if examples:
                        _play(check, arguments, label, examples, st.data() if of is None else of)
                    else:
                        check(*arguments)
                except BaseException as failure:
                    failure.add_note(f"for {label}")
                    raise

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return test_of


def _play(
    check: Callable[..., None],
    arguments: tuple[object, ...],
    label: str,
    examples: int,
    of: st.SearchStrategy[object],
) -> None:
    """Call the check with so many examples of `of`."""
    share = settings().max_examples / 100  # Hypothesis plays 100 where nothing else is said
    examples = max(2, int(examples * share))  # the first one is the simplest that there is

    @settings(max_examples=examples, deadline=None)
    @given(data=of)
    def play(data: object) -> None:
        check(*arguments, data)

    if settings().derandomize:  # without a seed of their own all cases have the same examples
        play = seed(crc32(f"{check.__name__} {label}".encode()))(play)
    play()
