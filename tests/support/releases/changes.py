"""What a release changed: APIs, versions, fields and error codes, beside an earlier release.

- A new version is compared with the version before it. A version that both releases have should be equal in both, but
  Kafka may add a tagged field to it: then every client may meet it at once.
- A field stands with its type, what it carries (`subjects`), and for a tagged one its tag and default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.releases.definitions import KINDS, text_of
from tests.support.releases.java_errors import read_errors
from tests.support.releases.subjects import subject_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.releases.definitions import Field, Message, Release


def api_changes(old: Release, new: Release) -> Iterator[str]:
    """Yield a line for each API that is new or gone, and for each whose versions changed."""
    before = {each.key: each for each in old.requests()}
    after = {each.key: each for each in new.requests()}
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        if was is None and now is not None:
            yield f"+ {key} {now.name} {versions_of(now)}, for {' and '.join(sorted(now.listeners))}"
        elif now is None and was is not None:
            yield f"- {key} {was.name} {versions_of(was)}"
        elif was is not None and now is not None:
            name = now.name if was.name == now.name else f"{was.name}, now {now.name}"
            if (versions_of(was), was.name) != (versions_of(now), now.name):
                yield f"  {key} {name} {versions_of(was)} -> {versions_of(now)}"


def versions_of(request: Message) -> str:
    """Return the versions of an API, and whether the newest one is unstable."""
    return text_of(request.versions) + (" (newest unstable)" if request.is_unstable else "")


def field_changes(old: Release, new: Release) -> Iterator[str]:
    """Yield a line for each version of a request or reply whose fields changed."""
    for request in new.requests():
        for kind in KINDS:
            now = new.messages[request.key, kind]
            was = old.messages.get((request.key, kind))
            for version in now.versions:
                if was is not None and version in was.versions:
                    changed = differences(was, version, now, version)
                elif version - 1 in now.versions:
                    changed = differences(now, version - 1, now, version)
                elif was is not None:  # the version before was removed at once
                    changed = differences(was, was.versions[-1], now, version)
                else:
                    changed = _of_interest(now, version)
                if changed:
                    yield f"{now.name}{kind.capitalize()} v{version}"
                    yield from (f"    {each}" for each in changed)


def differences(old: Message, old_version: int, new: Message, version: int) -> list[str]:
    """Return the fields that a version has and another one has not, or has in another form."""
    before = [_shown(path, field, old_version) for path, field in old.walk(old_version)]
    after = [_shown(path, field, version) for path, field in new.walk(version)]
    if len(before) == len(after):
        return [f"  {was} -> {now}" for was, now in zip(before, after, strict=True) if was != now]
    gone = [f"- {text}" for text in before if text not in after]
    return gone + [f"+ {text}" for text in after if text not in before]


def _of_interest(message: Message, version: int) -> list[str]:
    """Return the fields of a new message that have a subject or are tagged, and how many others there are."""
    every = list(message.walk(version))
    shown = [each for each in every if subject_of(each[1]) or version in each[1].tagged]
    others = len(every) - len(shown)
    found = [f"+ {_shown(path, field, version)}" for path, field in shown]
    return found + ([f"+ {others} others"] if others else [])


def error_changes(old: Release, new: Release) -> Iterator[str]:
    """Yield a line for each error code that is new, gone, or has another name or kind."""
    before, after = read_errors(old.files), read_errors(new.files)
    for error in (*before, *after):
        if (error in before) != (error in after):
            sign = "+" if error in after else "-"
            yield f"{sign} {error.code} {error.name}{', retriable' if error.is_retriable else ''}"


def _shown(path: str, field: Field, version: int) -> str:
    type_ = f"[]{field.type}" if field.is_array else field.type
    notes = [
        subject_of(field),
        "nullable" if version in field.nullable else "",
        f"tag {field.tag}, default {field.default or 'empty'}" if version in field.tagged else "",
    ]
    said = "; ".join(filter(None, notes))
    return f"{path} {type_}{f' ({said})' if said else ''}"
