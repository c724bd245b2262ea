"""Python code that reads the names in a request, made from the layout of its API and version.

- `wire.layout_code` has the rules of such code.
- A topic with one partition is looked up by its bytes first (`wire.topic_refs`); then only the other fields are read.
- Bytes after the last field are ignored, as a broker ignores them: librdkafka 2.16 sends three in a Metadata of all
  topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.apis import ApiKey
from wire.layout_code import LayoutCode
from wire.request_layouts import FETCH_TAGS_SINCE, Part

if TYPE_CHECKING:
    from wire.apis import Api

_LITERAL: Final = 3

_STEP_ELEMENTS: Final = 512
"""Elements that a reader in turns reads between two pauses; a power of two."""


def source(api: Api, layout: tuple[Part, ...], *, in_turns: bool = False) -> str:
    """Return the code of a function `read(buf, pos, end, budget, name_of)`. It uses `request_names.TOOLS`.

    `in_turns`: that of a generator, which pauses after each _STEP_ELEMENTS elements and returns the same.
    """
    return "\n".join(_NamesSource(api, in_turns=in_turns).body(layout))


class _NamesSource(LayoutCode):
    """Writes the code of one reader, a `_NamesReader`."""

    def __init__(self, api: Api, *, in_turns: bool) -> None:
        self._in_turns = in_turns
        super().__init__("def read(buf, pos, end, budget, name_of):", flexible=api.flexible)
        self._version = api.version
        self._loops = 0
        self._takes = "+="  # a partition is one of several
        # A broker reads a known tag by its own length. Only a fetched partition has some before other topics.
        is_fetch = api.key == ApiKey.FETCH and api.version >= FETCH_TAGS_SINCE
        self._spend = "spend_fetch_tags" if is_fetch else "spend_tags"
        self._spend_tags = f"pos, budget = {self._spend}(buf, pos, end, budget)"

    def body(self, layout: tuple[Part, ...]) -> list[str]:
        """Return the lines of the function."""
        self._fields(layout)
        self.tags("pos, budget = spend_tags(buf, pos, end, budget)")
        self.add("if pos > end: raise _beyond_end(pos, end)")
        self.add("if budget < 0: raise _over_budget(0, budget)")
        code = "\n".join(
            self.lines
        )  # a list for names that this version does not have would be made in vain
        groups = "tuple(groups)" if "groups." in code else "()"
        complete = "complete" if "complete = " in code else "True"
        self.add(f"return new(RequestNames, (tuple(topics), {groups}, {complete}))")
        self.lines[1:1] = ["    topics, groups, complete = [], [], True"]
        if self._in_turns:
            self.lines[1:1] = ["    steps = 0", "    yield"]
        return self.lines

    def _count_step(self) -> None:
        if self._in_turns:
            self.add("steps += 1", f"if not steps & {_STEP_ELEMENTS - 1}: yield")

    def _struct(self, parts: tuple[Part, ...]) -> None:
        """Read the fields of a struct, and its tags."""
        self._fields(parts)
        self.tags(self._spend_tags)

    def _fields(self, parts: tuple[Part, ...]) -> None:
        """Read the fields of a struct. Neighbours of fixed width are one step."""
        fixed = 0
        for part in parts:
            if part.kind.isdigit():
                fixed += int(part.kind)
                continue
            self._step(fixed)
            fixed = 0
            self._part(part)
        self._step(fixed)

    def _step(self, size_bytes: int) -> None:
        if size_bytes:
            self.add(f"pos += {size_bytes}")

    def _part(self, part: Part) -> None:
        kind = part.kind
        if kind in "{[":
            self._array(part)
        elif kind == "<":
            self._struct(part.parts)
        elif kind == "(":
            with self.block("if buf[pos] < 128:"):
                self.add("pos += 1")
                self._struct(part.parts)
            self.add("else: pos += 1")
        elif kind == "p":
            self.add(f"partitions {self._takes} int32_at(buf, pos)", "pos += 4")
        elif kind == "e":
            self.add("if int32_at(buf, pos)[0] > 0: complete = False", "pos += 4")
        elif kind == "i":
            self.add("topic_id = bytes(buf[pos : pos + 16])", "pos += 16")
        elif kind in "sb":
            self.skip_text("skip_string" if kind == "s" else "skip_bytes")
        elif kind in "tngx":
            self.read_text({"t": "name", "n": "name", "g": "group", "x": "pattern"}[kind])
            if kind == "n":
                self.add("if name is not None: topics.append(new(TopicRef, (name, None, ())))")
            elif kind == "g":
                self.add("if group is not None: groups.append(group)")
            elif kind == "x":
                self.add("if pattern: complete = False")
        else:
            self._resource(kind)

    def _resource(self, kind: str) -> None:
        """Read a config resource (`r`), an ACL's resource (`a`) or a coordinator's key (`k`, `q`)."""
        if kind == "k":
            self.read_text("text")
            self.add("if buf[pos] == 0 and text is not None: groups.append(text)", "pos += 1")
            return
        self.add("type_ = buf[pos]", "pos += 1")
        if kind == "q":
            self._array(Part("[", (Part("g"),)), ["if type_: groups.clear()"])
            return
        self.read_text("text")
        group_type = 32
        if kind == "a":
            group_type = 3
            pattern = "False"
            if self._version >= 1:
                self.add("pattern_type = buf[pos]", "pos += 1")
                pattern = f"pattern_type != {_LITERAL}"
            self.add(
                f"if type_ < 3 and (type_ != 2 or not text or text == '*' or {pattern}):",
                "    complete = False",
            )
        self.add("if type_ == 2 and text: topics.append(new(TopicRef, (text, None, ())))")
        self.add(f"elif type_ == {group_type} and text: groups.append(text)")

    def _array(self, part: Part, after: list[str] | None = None) -> None:
        """Read an array: its count first, then its elements, each of which costs budget."""
        self._loops += 1
        count = f"count{self._loops}"
        self.read_count(count)
        if part.means_all:
            self.add(f"if {count} < {'1' if part.means_all == '!' else '0'}: complete = False")
        self.add(f"if {count} > budget: raise _over_budget({count}, budget)")
        has_partition = _holds_partitions(part)
        stride = _fixed_width(part.parts)
        if has_partition and stride:
            self._fixed_partitions(count, stride, part)
            return
        if has_partition:
            self._partitions(count, part)
            return
        with self.block(f"if {count} > 0:"):
            self.add(f"budget -= {count}")
            if stride and not part.names_topics and (part.kind == "[" or not self.flexible):
                self.add(f"pos += {stride} * {count}")
            else:
                with self.block(f"for _ in range({count}):"):
                    self._count_step()
                    self._element(part)
        self.add(*(after or ()))

    def _element(self, part: Part) -> None:
        kinds = [each.kind for each in part.parts]
        names_topics = part.names_topics
        is_kept = kinds[0] == "t" and _holds_partitions(part.parts[-1]) and len(kinds) == 2
        if is_kept:
            self._look_up(part)
        if names_topics and not any(_holds_partitions(each) for each in part.parts):
            self.add("partitions = ()")
        if part.kind == "{":
            self._struct(part.parts)
        else:
            self._part(part.parts[0])
        if not names_topics:
            return
        if "i" not in kinds:
            self.add("ref = new(TopicRef, (name, None, partitions))", "topics.append(ref)")
            if is_kept:
                keep = "keep_compact" if self.flexible else "keep_classic"
                self.add(f"if len(partitions) == 1: {keep}(buf, start, ref)")
            return
        if "t" in kinds:  # the id counts, if there is one, as in a broker
            self.add("if topic_id == ZERO_ID:")
            self.add("    topics.append(new(TopicRef, (name, None, partitions)))")
            self.add("    continue")
        fields = "(name_of.get(topic_id), topic_id, partitions)"
        self.add(f"topics.append(new(TopicRef, {fields}))")

    def _look_up(self, part: Part) -> None:
        """Read a topic with one partition that is kept; any other is read field by field after this."""
        key, size, guard, more_bytes = (
            ("compact_key", "buf[pos]", "size < 128", 5)
            if self.flexible
            else ("classic_key", "int16_at(buf, pos)[0]", "0 <= size < 128", 10)
        )
        self.add(f"size = {size}", f"stop = pos + size + {more_bytes}")
        self.add(f"ref = get_ref({key}[size](buf, pos)[0]) if {guard} and stop <= end else None")
        with self.block("if ref is not None:"):
            self.add("pos = stop", "budget -= 1")
            self._fields(part.parts[1].parts[1:])
            if part.parts[1].kind == "[":
                self.tags(self._spend_tags)
            elif self.flexible:  # the partition's tags, and the topic's
                self.add("if buf[pos] or buf[pos + 1]:", *[f"    {self._spend_tags}"] * 2)
                self.add("else: pos += 2")
            self.add("topics.append(ref)", "continue")
        self.add("start = pos")

    def _partitions(self, count: str, part: Part) -> None:
        """Read an array of partitions; most often there is one, which needs no loop and no list."""
        with self.block(f"if {count} == 1:"):
            self.add("budget -= 1")
            self._takes = "="
            self._element(part)
            self._takes = "+="
        with self.block(f"elif {count} > 0:"):
            self.add(f"budget -= {count}", "partitions = []")
            with self.block(f"for _ in range({count}):"):
                self._count_step()
                self._element(part)
            self.add("partitions = tuple(partitions)")
        self.add("else: partitions = ()")

    def _fixed_partitions(self, count: str, stride: int, part: Part) -> None:
        """Read an array of partitions of which each has the same size; most often there is one."""
        tags = int(part.kind == "{" and self.flexible)
        alone = f" and not buf[pos + {stride}]" if tags else ""
        self.add(f"if {count} == 1{alone}:")
        self.add("    budget -= 1", "    partitions = int32_at(buf, pos)")
        self.add(f"    pos += {stride + tags}")
        self.add(f"elif {count} > 0:")
        arguments = f"buf, pos, end, budget - {count}, {count}, {stride}, {tags}, {self._spend}"
        self.add(f"    partitions, pos, budget = _partitions({arguments})")
        self.add("else: partitions = ()")


def _holds_partitions(part: Part) -> bool:
    return part.kind in "{[" and part.parts[0].kind == "p"


def _fixed_width(parts: tuple[Part, ...]) -> int:
    """Return the bytes of these fields together; 0 if the size of one varies."""
    widths = {"p": 4, "i": 16}
    found = [widths.get(each.kind) or (each.kind.isdigit() and int(each.kind)) for each in parts]
    return sum(found) if all(found) else 0
