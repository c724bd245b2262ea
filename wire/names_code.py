"""Python code that reads the names in a request, made from the layout of its API and version.

- `dataclasses` makes its methods so, too: a loop over the layout would cost ten times as much for each request.
- The code trusts no size: it never goes back, so one check after the last field finds all that end too early. An
  IndexError or `struct.error` says the same.
- Bytes after the last field are ignored, as a broker ignores them: librdkafka 2.16 sends three in a Metadata of all
  topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.request_layouts import Part

if TYPE_CHECKING:
    from wire.apis import Api

_LITERAL: Final = 3
_INDENT: Final = "    "


def source(api: Api, layout: tuple[Part, ...]) -> str:
    """Return the code of a function `read(buf, pos, end, budget, name_of)`. It uses `request_names.TOOLS`."""
    return "\n".join(_Source(api).body(layout))


class _Source:
    """Writes the code of one reader."""

    def __init__(self, api: Api) -> None:
        self._flexible = api.flexible
        self._version = api.version
        self._lines: list[str] = []
        self._depth = 1
        self._loops = 0
        self._takes = "+="  # a partition is one of several

    def body(self, layout: tuple[Part, ...]) -> list[str]:
        """Return the lines of a function `read`, a `_Reader`."""
        self._lines = ["def read(buf, pos, end, budget, name_of):"]
        self._add("topics, groups, complete = [], [], True")
        self._struct(layout)
        self._add("if pos > end: raise _beyond_end(pos, end)")
        self._add("return new(RequestNames, (tuple(topics), tuple(groups), complete))")
        return self._lines

    def _add(self, *lines: str) -> None:
        self._lines += [_INDENT * self._depth + line for line in lines]

    def _struct(self, parts: tuple[Part, ...]) -> None:
        """Read the fields of a struct, and its tags. Neighbours of fixed width are one step."""
        fixed = 0
        for part in parts:
            if part.kind.isdigit():
                fixed += int(part.kind)
                continue
            self._step(fixed)
            fixed = 0
            self._part(part)
        self._step(fixed)
        if self._flexible:
            self._add("if buf[pos]: pos, budget = spend_tags(buf, pos, end, budget)")
            self._add("else: pos += 1")

    def _step(self, size_bytes: int) -> None:
        if size_bytes:
            self._add(f"pos += {size_bytes}")

    def _part(self, part: Part) -> None:
        kind = part.kind
        if kind in "{[":
            self._array(part)
        elif kind == "(":
            self._add("if buf[pos] < 128:")
            self._depth += 1
            self._add("pos += 1")
            self._struct(part.parts)
            self._depth -= 1
            self._add("else: pos += 1")
        elif kind == "p":
            self._add(f"partitions {self._takes} int32_at(buf, pos)", "pos += 4")
        elif kind == "e":
            self._add("if int32_at(buf, pos)[0] > 0: complete = False", "pos += 4")
        elif kind == "i":
            self._add("topic_id = bytes(buf[pos : pos + 16])", "pos += 16")
        elif kind in "sb":
            self._skip_text("skip_string" if kind == "s" else "skip_bytes")
        elif kind in "tgx":
            self._text({"t": "name", "g": "group", "x": "pattern"}[kind])
            if kind == "g":
                self._add("if group is not None: groups.append(group)")
            elif kind == "x":
                self._add("if pattern: complete = False")
        else:
            self._resource(kind)

    def _text(self, variable: str) -> None:
        """Read a string into a variable; None if it is null."""
        if self._flexible:
            self._add("size = buf[pos]", "pos += 1")
            self._add("if size > 127: size, pos = uvarint(buf, pos - 1, end)")
            self._add("size -= 1")
        else:
            self._add("size = int16_at(buf, pos)[0]", "pos += 2")
            self._add("if size < -1: raise _bad_size(size)")
        self._add("if size >= 0:")
        self._add(f"    {variable} = buf[pos : pos + size].decode()", "    pos += size")
        self._add(f"else: {variable} = None")

    def _skip_text(self, skipper: str) -> None:
        """Step over a string or bytes; `skipper` does it in versions that are not flexible."""
        if self._flexible:
            self._add("size = buf[pos]")
            self._add("if size < 128: pos += size or 1")
            self._add("else: pos = skip_compact(buf, pos, end)")
        else:
            self._add(f"pos = {skipper}(buf, pos, end)")

    def _resource(self, kind: str) -> None:
        """Read a config resource (`r`), an ACL's resource (`a`) or a coordinator's key (`k`, `q`)."""
        if kind == "k":
            self._text("text")
            self._add("if buf[pos] == 0 and text is not None: groups.append(text)", "pos += 1")
            return
        self._add("type_ = buf[pos]", "pos += 1")
        if kind == "q":
            self._array(Part("[", (Part("g"),)), ["if type_: groups.clear()"])
            return
        self._text("text")
        group_type = 32
        if kind == "a":
            group_type = 3
            pattern = "False"
            if self._version >= 1:
                self._add("pattern_type = buf[pos]", "pos += 1")
                pattern = f"pattern_type != {_LITERAL}"
            self._add(
                f"if type_ < 3 and (type_ != 2 or not text or text == '*' or {pattern}):",
                "    complete = False",
            )
        self._add("if type_ == 2 and text: topics.append(new(TopicRef, (text, None, ())))")
        self._add(f"elif type_ == {group_type} and text: groups.append(text)")

    def _array(self, part: Part, after: list[str] | None = None) -> None:
        """Read an array: its count first, then its elements, each of which costs budget."""
        self._loops += 1
        count = f"count{self._loops}"
        if self._flexible:
            self._add(f"{count} = buf[pos] - 1", "pos += 1")
            self._add(f"if {count} > 126: {count}, pos = compact_count(buf, pos - 1, end)")
        else:
            self._add(f"{count} = int32_at(buf, pos)[0]", "pos += 4")
            self._add(f"if {count} < -1: raise _bad_size({count})")
        if part.means_all:
            self._add(f"if {count} < {'1' if part.means_all == '!' else '0'}: complete = False")
        self._add(f"if {count} > budget: raise _over_budget({count}, budget)")
        has_partition = _holds_partitions(part)
        stride = _fixed_width(part.parts)
        if has_partition and stride:
            self._fixed_partitions(count, stride, part)
            return
        if has_partition:
            self._partitions(count, part)
            return
        self._add(f"if {count} > 0:")
        self._depth += 1
        self._add(f"budget -= {count}")
        if stride and not part.names_topics and (part.kind == "[" or not self._flexible):
            self._add(f"pos += {stride} * {count}")
        else:
            self._add(f"for _ in range({count}):")
            self._depth += 1
            self._element(part)
            self._depth -= 1
        self._depth -= 1
        self._add(*(after or ()))

    def _element(self, part: Part) -> None:
        kinds = [each.kind for each in part.parts]
        names_topics = part.names_topics
        if names_topics and not any(_holds_partitions(each) for each in part.parts):
            self._add("partitions = ()")
        if part.kind == "{":
            self._struct(part.parts)
        else:
            self._part(part.parts[0])
        if not names_topics:
            return
        if "i" not in kinds:
            self._add("topics.append(new(TopicRef, (name, None, partitions)))")
            return
        if "t" in kinds:  # the id counts, if there is one, as in a broker
            self._add("if topic_id == ZERO_ID:")
            self._add("    topics.append(new(TopicRef, (name, None, partitions)))")
            self._add("    continue")
        fields = "(name_of.get(topic_id), topic_id, partitions)"
        self._add(f"topics.append(new(TopicRef, {fields}))")

    def _partitions(self, count: str, part: Part) -> None:
        """Read an array of partitions; most often there is one, which needs no loop and no list."""
        self._add(f"if {count} == 1:")
        self._depth += 1
        self._add("budget -= 1")
        self._takes = "="
        self._element(part)
        self._takes = "+="
        self._depth -= 1
        self._add(f"elif {count} > 0:")
        self._depth += 1
        self._add(f"budget -= {count}", "partitions = []", f"for _ in range({count}):")
        self._depth += 1
        self._element(part)
        self._depth -= 1
        self._add("partitions = tuple(partitions)")
        self._depth -= 1
        self._add("else: partitions = ()")

    def _fixed_partitions(self, count: str, stride: int, part: Part) -> None:
        """Read an array of partitions of which each has the same size; most often there is one."""
        tags = int(part.kind == "{" and self._flexible)
        alone = f" and not buf[pos + {stride}]" if tags else ""
        self._add(f"if {count} == 1{alone}:")
        self._add("    budget -= 1", "    partitions = int32_at(buf, pos)")
        self._add(f"    pos += {stride + tags}")
        self._add(f"elif {count} > 0:")
        arguments = f"buf, pos, end, budget - {count}, {count}, {stride}, {tags}"
        self._add(f"    partitions, pos, budget = _partitions({arguments})")
        self._add("else: partitions = ()")


def _holds_partitions(part: Part) -> bool:
    return part.kind in "{[" and part.parts[0].kind == "p"


def _fixed_width(parts: tuple[Part, ...]) -> int:
    """Return the bytes of these fields together; 0 if the size of one varies."""
    widths = {"p": 4, "i": 16}
    found = [widths.get(each.kind) or (each.kind.isdigit() and int(each.kind)) for each in parts]
    return sum(found) if all(found) else 0
