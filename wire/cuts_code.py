"""Python code that hides items of a reply, made from the layout of its API and version.

- `pieces` are slices of the body, and what is written anew. `since` is where the bytes begin that are not in a piece
  yet. An item that goes takes its pieces with it.
- `hide` of an item is 0, or the code that refuses it. An item stays if it or one of its partitions has a code of
  REFUSALS, whether the code comes before its name or after.
- An item whose name the request has is not cut: bare fields take its place, around the bytes of its name.
- `wire.layout_code` has the rules of such code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from wire.apis import ApiKey
from wire.bare_items import bare
from wire.errors import ErrorCode
from wire.layout_code import LayoutCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wire.apis import Api
    from wire.request_layouts import Part

_NAMING: Final = "tigdrRA"
_KINDS: Final = {"t": "TOPIC", "T": "TOPIC", "U": "TOPIC", "g": "GROUP", "d": "TRANSACTIONAL_ID"}
_TOPIC: Final = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_GROUP: Final = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)
_CODES: Final = {
    "TOPIC": _TOPIC,
    "GROUP": _GROUP,
    "TRANSACTIONAL_ID": int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_RESOURCES: Final = {
    "r": ((2, "TOPIC"), (32, "GROUP")),
    "R": ((2, "TOPIC"), (32, "GROUP")),
    "A": ((2, "TOPIC"), (3, "GROUP"), (5, "TRANSACTIONAL_ID")),
}
"""The numbers of kinds among config resources, and among the resources of ACLs."""
_STEP_ELEMENTS: Final = 512
"""Elements between two pauses, a power of two: about a millisecond."""
_LISTS_ALL: Final = frozenset({ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS})
"""Their requests name no groups and no transactional ids."""
_MESSAGES: Final = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: "The group has described topic(s) that the client is not authorized to describe.",
    ApiKey.SHARE_GROUP_DESCRIBE: "The group has described topic(s) that the client is not authorized to describe.",
    ApiKey.STREAMS_GROUP_DESCRIBE: "The described group uses topics that the client is not authorized to describe.",
}
"""Of a group that is refused for one of its topics, as Kafka words it."""


def source(api: Api, layout: tuple[Part, ...], *, in_turns: bool = False) -> str:
    """Return the code of a function `cut(buf, end, view)`. It uses `listing_cuts.TOOLS`.

    `in_turns`: that of a generator, which pauses after each _STEP_ELEMENTS elements and returns the same.
    """
    return "\n".join(_CutsSource(api, in_turns=in_turns).body(layout))


class _Item(NamedTuple):
    """The array whose item is written: its number ends the variables of that item."""

    number: int = 0
    name: str = ""
    """The kind of what names it: `t`, `g`, ... Empty for the reply itself."""


class _CutsSource(LayoutCode):
    """Writes the code of one cutter."""

    def __init__(self, api: Api, *, in_turns: bool) -> None:
        super().__init__("def cut(buf, end, view):", flexible=api.flexible)
        self._api = api
        self._in_turns = in_turns
        self._loops = 0

    def body(self, layout: tuple[Part, ...]) -> list[str]:
        """Return the lines of the function."""
        self.add("pos = since = 0", "pieces, is_cut = [], False", "allows = view.allows")
        if self._in_turns:
            self.add("steps = 0")
        if self._api.key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            self.add("last = None")
        if _has(layout, "m"):
            self.add("after_partitions = PartitionRuns().after")
        self._struct(layout, _Item())
        self.add("if pos != end: raise _bad_end(pos, end)")
        self.add("pieces.append(buf[since:end])", "return pieces, is_cut")
        return self.lines

    def _struct(self, parts: tuple[Part, ...], item: _Item) -> None:
        """Step over the fields of a struct, and its tags."""
        self._fields(parts, item)
        if not parts or parts[-1].kind != "K":  # which has the tags, too
            self.tags("pos = skip_tags(buf, pos, end)")

    def _fields(self, parts: tuple[Part, ...], item: _Item) -> None:
        kinds: list[str] = []  # of the fields so far
        fixed = 0
        for part in parts:
            if part.kind.isdigit():
                fixed += int(part.kind)
            else:
                self._step(fixed)
                fixed = 0
                self._part(part, kinds, item)
            kinds.append(part.kind)
        self._step(fixed)

    def _step(self, size_bytes: int) -> None:
        if size_bytes:
            self.add(f"pos += {size_bytes}")

    def _part(self, part: Part, kinds: Sequence[str], item: _Item) -> None:
        kind = part.kind
        if kind in "{[":
            self._array(part, item)
        elif kind in "<(":
            self._nested(part, item)
        elif kind in "sb":
            self.skip_text("skip_bytes" if kind == "b" else "skip_string")
        elif kind == "m":
            self.add("pos = after_partitions(buf, pos, end)")
        elif kind == "c":
            self.add("code = int16_at(buf, pos)[0]", "pos += 2")
            if kinds:  # else the name comes after it
                self._stay_if_refused([kind], item)
        elif kind in _KINDS:
            self._name(kind, kinds, item)
        elif kind == "i":
            self._id(kinds, item)
        elif kind in _RESOURCES:
            self._resource(kind, kinds, item)
        else:
            {"O": self._operations, "H": self._hiding, "S": self._status}.get(
                kind, self._settings if kind == "K" else self._cursor
            )(item)

    # --- names -----------------------------------------------------------------------------------

    def _name(self, kind: str, kinds: Sequence[str], item: _Item) -> None:
        """Read a name. That of an item is kept for its other fields."""
        own, number, resource = kind == item.name, item.number, _KINDS[kind]
        name = f"name{number}" if own else "name"
        if own and self._is_asked(item):
            self.add(f"named{number} = pos")
        self.read_text(name)
        if own and self._is_asked(item):
            self.add(f"after{number} = pos")
        if kind == "T":
            return
        self.add(f"if {name} is not None and not allows({resource}, {name}, DESCRIBE):")
        self.add(f"    hide{number} = {_CODES[resource]}")
        if own:
            self._stay_if_refused(kinds, item)

    def _id(self, kinds: Sequence[str], item: _Item) -> None:
        number, topic_id = item.number, "buf[pos : pos + 16]"
        if "t" in kinds:
            self.add(
                f"if name{number} is None and not view.shows_nameless({topic_id}): hide{number} = {_TOPIC}"
            )
        else:
            self.add(f"if not view.shows_id({topic_id}): hide{number} = {_TOPIC}")
        self.add(f"id{number} = pos", "pos += 16") if self._can_ask_by_id(item) else self.add(
            "pos += 16"
        )
        self._stay_if_refused(kinds, item)

    def _resource(self, kind: str, kinds: Sequence[str], item: _Item) -> None:
        number = item.number
        operation = "DESCRIBE_CONFIGS" if kind == "r" else "DESCRIBE"
        self.add(f"named{number} = pos")
        if kind == "R":
            self.read_text("name")
        self.add("type_ = buf[pos]", "pos += 1")
        if kind != "R":
            self.read_text("name")
        self.add(f"after{number} = pos")
        for value, resource in _RESOURCES[kind]:
            self.add(f"if type_ == {value} and name is not None:")
            self.add(f"    if not allows({resource}, name, {operation}):")
            self.add(f"        hide{number} = {_CODES[resource]}")
        self._stay_if_refused(kinds, item)

    def _stay_if_refused(self, kinds: Sequence[str], item: _Item) -> None:
        if "c" in kinds and item.number:
            self.add(f"if code in REFUSALS: hide{item.number} = 0")

    # --- what is written anew ---------------------------------------------------------------------

    def _operations(self, item: _Item) -> None:
        """Leave of AuthorizedOperations what the client may do, if it has asked for them."""
        self.add("operations = int32_at(buf, pos)[0]")
        if item.number:
            resource, name = _KINDS[item.name], f"name{item.number}"
            with self.block("if operations != NOT_ASKED and view.mask is not None:"):
                self.add(f"mask = 0 if {name} is None else view.mask({resource}, {name})")
                self._write_if("mask & operations != operations", "pack_int32(mask & operations)")
        else:
            with self.block("if operations != NOT_ASKED and view.cluster_mask is not None:"):
                self.add("mask = view.cluster_mask & operations")
                self._write_if("mask != operations", "pack_int32(mask)")
        self.add("pos += 4")

    def _write_if(self, condition: str, code: str, width: str = "pos + 4") -> None:
        self.add(f"if {condition}:", f"    pieces += buf[since:pos], {code}")
        self.add(f"    since, is_cut = {width}, True")

    def _hiding(self, _: _Item) -> None:
        self.read_text("name")
        self.add("if name is not None and not view.shows(name): is_hidden = True")

    def _nested(self, part: Part, item: _Item) -> None:
        """Step over a struct; one that may be null is null afterwards if a topic hides it."""
        if part.kind == "<":
            self._struct(part.parts, item)
            return
        hides = _has(part.parts, "H")
        if hides:
            self.add("nested, is_hidden = pos, False")
        with self.block("if buf[pos] < 128:"):
            self.add("pos += 1")
            self._struct(part.parts, item)
        self.add("else: pos += 1")
        if hides:
            self.add("if is_hidden:", r"    pieces += buf[since:nested], b'\xff'")
            self.add("    since, is_cut = pos, True")

    def _status(self, _: _Item) -> None:
        """Say of a hidden description of a topology that it could not be had (2)."""
        self._write_if("is_hidden", r"b'\2'", "pos + 1")
        self.add("pos += 1")

    def _settings(self, item: _Item) -> None:
        """Hide the settings of a created topic whose configs the client may not describe."""
        name = f"name{item.number}"
        self.add("settings, pos = pos, after_settings(buf, pos, end)")
        self.add(
            f"if not code and ({name} is None or not allows(TOPIC, {name}, DESCRIBE_CONFIGS)):"
        )
        self.add("    pieces += buf[since:settings], NO_SETTINGS")
        self.add("    tags, pos = refused_settings(buf, pos, end)", "    pieces.append(tags)")
        self.add("    since, is_cut = pos, True", "else: pos = skip_tags(buf, pos, end)")

    def _cursor(self, _: _Item) -> None:
        self.add("cursor, after = shown_cursor(buf, pos, end, view, last)")
        self._write_if("cursor is not None", "cursor", "after")
        self.add("pos = after")

    # --- arrays ------------------------------------------------------------------------------------

    def _array(self, part: Part, item: _Item) -> None:
        """Step over an array, or cut it. `item`: what it is in."""
        self._loops += 1
        n = self._loops
        self.add(f"count_at{n} = pos")
        self.read_count(f"count{n}")
        width = _fixed_width(part.parts)
        is_plain = part.kind == "[" or not self.flexible
        name = next((each.kind for each in part.parts if each.kind in _NAMING + "T"), "")
        if width and is_plain:  # a loop would read nothing, and so never end early
            self.add(f"if count{n} > 0: pos += {width} * count{n}")
        elif name and name in _NAMING:
            self._cut_array(part, _Item(n, name))
        else:
            with self.block(f"for _ in range(count{n}):"):
                self._count_step()
                inner = _Item(n, name) if name else item
                (self._fields if part.kind == "[" else self._struct)(part.parts, inner)

    def _cut_array(self, part: Part, item: _Item) -> None:
        n, encode = item.number, "encode_compact_count" if self.flexible else "encode_count"
        is_asked = self._is_asked(item)
        if not is_asked:
            self.add(f"pieces += buf[since:count_at{n}], buf[count_at{n}:pos]", "since = pos")
            self.add(f"place{n}, left{n} = len(pieces) - 1, count{n}")
        with self.block(f"for _ in range(count{n}):"):
            self._count_step()
            self.add(f"start{n}, since{n}, pieces{n} = pos, since, len(pieces)", f"hide{n} = 0")
            self._struct(part.parts, item)
            with self.block(f"if hide{n}:"):
                self.add(f"del pieces[pieces{n}:]")
                self.add(f"if start{n} > since{n}: pieces.append(buf[since{n}:start{n}])")
                self.add("since, is_cut = pos, True")
                if is_asked:
                    self._refuse(part, item)
                elif self._can_ask_by_id(item):
                    self.add(f"if not view.asks_by_id: left{n} -= 1")
                    with self.block("else:"):
                        self._refuse_id(part, item)
                else:
                    self.add(f"left{n} -= 1")
            if self._api.key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
                self._keep_last(item)
        if not is_asked:
            self.add(f"if left{n} != count{n}: pieces[place{n}] = {encode}(left{n})")

    def _count_step(self) -> None:
        if self._in_turns:
            self.add("steps += 1", f"if not steps & {_STEP_ELEMENTS - 1}: yield")

    def _keep_last(self, item: _Item) -> None:
        name = f"name{item.number}"
        self.add(f"elif {name} is not None and not code and (last is None or last < {name}):")
        self.add(f"    last = {name}")

    def _is_asked(self, item: _Item) -> bool:
        """Return whether the request has named the item."""
        return item.name in {"g", "d", "r"} and self._api.key not in _LISTS_ALL

    def _can_ask_by_id(self, item: _Item) -> bool:
        return item.name == "t" and self._api.key == ApiKey.METADATA and self._api.version >= 12

    def _refuse(self, part: Part, item: _Item) -> None:
        """Write the refused item around its name."""
        n, at = item.number, [each.kind for each in part.parts].index(item.name)
        codes = {"g": [_GROUP], "d": [_CODES["TRANSACTIONAL_ID"]], "r": [_TOPIC, _GROUP]}[item.name]
        if _has(part.parts, "U"):
            codes.append(_TOPIC)
        for code in codes:
            of_topic = code == _TOPIC and item.name == "g"
            message = _MESSAGES.get(ApiKey(self._api.key)) if of_topic else None
            before, after = (
                bare(parts, code, message, flexible=self.flexible)
                for parts in (part.parts[:at], part.parts[at + 1 :])
            )
            after += b"\0" if self.flexible else b""
            self.add(f"if hide{n} == {code}:")
            self.add(f"    pieces += {before!r}, buf[named{n}:after{n}], {after!r}")

    def _refuse_id(self, part: Part, item: _Item) -> None:
        """Write the refused topic around its id, without its name."""
        n, at = item.number, [each.kind for each in part.parts].index("i")
        before = bare(part.parts[: at - 1], _TOPIC, None, flexible=True) + b"\0"  # no name
        after = bare(part.parts[at + 1 :], _TOPIC, None, flexible=True) + b"\0"  # no tags
        self.add(f"pieces += {before!r}, buf[id{n} : id{n} + 16], {after!r}")


def _has(parts: tuple[Part, ...], kind: str) -> bool:
    return any(part.kind == kind or _has(part.parts, kind) for part in parts)


def _fixed_width(parts: tuple[Part, ...]) -> int:
    """Return the bytes of these fields together; 0 if the size of one varies."""
    return sum(int(each.kind) for each in parts) if all(p.kind.isdigit() for p in parts) else 0
