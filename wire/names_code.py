"""Python code that reads the names in a request, made from the layout of its API and version.

- `wire.layout_code` has the rules of such code.
- A topic with one partition is looked up by its bytes first (`wire.topic_refs`); then only the other fields are read.
- A group, a transactional id or a config resource that is null has the empty name: no guard lets it pass unseen.
- Bytes after the last field are ignored, as a broker ignores them: librdkafka 2.16 sends three in a Metadata of all
  topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.apis import ApiKey
from wire.authorization import act_of
from wire.layout_code import LayoutCode
from wire.request_layouts import FETCH_TAGS_SINCE, REPLICA_SINCE, Part

if TYPE_CHECKING:
    from wire.apis import Api

_LITERAL: Final = 3
_SHARE_SINCE: Final = 6
"""The first version of FindCoordinator with share coordinators; a broker refuses to name one before."""

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
        self._api = api
        self._version = api.version
        self._act = act_of(api)
        self._loops = 0
        self._takes = "+="  # a partition is one of several
        self._looks_at_batches = False
        # A broker reads a known tag by its own length. Only a fetched partition has some before other topics.
        is_fetch = api.key == ApiKey.FETCH and api.version >= FETCH_TAGS_SINCE
        self._spend = "spend_fetch_tags" if is_fetch else "spend_tags"
        self._spend_tags = f"pos, budget = {self._spend}(buf, pos, end, budget)"

    def body(self, layout: tuple[Part, ...]) -> list[str]:
        """Return the lines of the function."""
        self._fields(layout)
        if self._api.key == ApiKey.FETCH and self._version >= REPLICA_SINCE:
            self.add("if buf[pos]: pos, budget, act = spend_replica(buf, pos, end, budget)")
            self.add("else: pos += 1")
        else:
            self.tags("pos, budget = spend_tags(buf, pos, end, budget)")
        self.add("if pos > end: raise _beyond_end(pos, end)")
        self.add("if budget < 0: raise _over_budget(0, budget)")
        code = "\n".join(self.lines)
        start = [
            "topics = []",
            *(["writes = False"] if self._looks_at_batches else []),
        ]  # a list for names that this version does not have is not made

        def found(mark: str, first: str, told: str, otherwise: str) -> str:
            if mark not in code:
                return otherwise
            start.append(first)
            return told

        fields = (
            "tuple(topics)",
            found("groups.", "groups = []", "tuple(groups)", "()"),
            found("complete =", "complete = True", "complete", "True"),
            found("ids.", "ids = []", f"tuple(ids) if {self._told()} else ()", "()"),
            found("act =", "act = False", f"{(self._act,)} if act else ()", self._sure_acts()),
            found("created.", "created = []", "tuple(created)", self._created(code)),
            found("has_pattern =", "has_pattern = False", "has_pattern", "False"),
        )
        self.add(f"return new(RequestNames, ({', '.join(fields)}))")
        self.lines[1:1] = [f"    {each}" for each in start]
        if self._in_turns:
            self.lines[1:1] = ["    steps = 0", "    yield"]
        return self.lines

    def _told(self) -> str:
        """Return what says whether transactional ids are told: that of a Produce if a batch is transactional."""
        return "writes" if self._looks_at_batches else "ids"

    def _sure_acts(self) -> str:
        """Return the acts that each request of this version asks for, whatever it says."""
        return f"{(self._act,)}" if self._act else "()"

    def _created(self, code: str) -> str:
        """Return the topics that the request creates, or lets the broker create."""
        if self._api.key not in {ApiKey.CREATE_TOPICS, ApiKey.METADATA}:
            return "()"
        names = (
            "tuple([ref.name for ref in topics if ref.topic_id is None and ref.name is not None])"
        )
        return f"{names} if may_create else ()" if "may_create =" in code else names

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
            if part.kind == "o":  # a node's number is 0 at least: only its sign counts
                self.add(f"act = buf[pos + {fixed}] < 128")
                fixed += 4
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
        elif kind == "y":
            self.add("may_create = buf[pos]", "pos += 1")
        elif kind == "u":
            self._nullable_id()
        elif kind in "sb":
            if kind == "b" and self._looks_at_batches:
                size_at = "compact_length" if self.flexible else "bytes_length"
                self.add("if ids and not writes:")
                self.add(f"    writes = may_be_transactional(buf, *{size_at}(buf, pos, end))")
            self.skip_text("skip_string" if kind == "s" else "skip_bytes")
        elif kind in "tnwgdx":
            self._name(kind)
        else:
            self._resource(kind)

    def _name(self, kind: str) -> None:
        """Read a name, or a pattern, and keep it. A topic's is kept after its partitions were read."""
        variable = {"g": "group", "d": "id_", "x": "pattern"}.get(kind, "name")
        self.read_text(variable)
        if kind == "n":
            self.add("if name is not None: topics.append(new(TopicRef, (name, None, ())))")
        elif kind in "gd":
            self.add(f"{'groups' if kind == 'g' else 'ids'}.append({variable} or '')")
        elif kind == "x":
            self.add("if pattern:", "    complete = False", "    has_pattern = True")
        elif kind == "w":
            self.add("created.append(name)")

    def _nullable_id(self) -> None:
        """Read a transactional id; without one the request may ask for an act in its place."""
        self._looks_at_batches = self._api.key == ApiKey.PRODUCE
        told = ["if id_ is not None: ids.append(id_)"]
        if self._act:
            told.append("else: act = True")
        if self._act or not self.flexible:
            self.read_text("id_")
            self.add(*told)
            return
        self.add("if not buf[pos]: pos += 1")  # most often there is none
        with self.block("else:"):
            self.read_text("id_")
            self.add(*told)

    def _resource(self, kind: str) -> None:
        """Read a config resource (`r`), an ACL's resource (`a`) or a coordinator's key (`k`, `q`)."""
        if kind == "k":
            self.read_text("text")
            self.add("type_ = buf[pos]", "pos += 1")
            self.add("if type_ == 0: groups.append(text or '')")
            self.add("elif type_ == 1: ids.append(text or '')")
            self.add(f"elif {self._other_type()}: act = True")
            return
        self.add("type_ = buf[pos]", "pos += 1")
        if kind == "q":
            after = ["if type_ == 1: ids.extend(groups)", "if type_: groups.clear()"]
            self._array(Part("[", (Part("g"),)), after)
            self.add(f"if type_ > 1 and {self._other_type()}: act = True")
            return
        self.read_text("text")
        if kind == "r":
            self.add(
                "if type_ == 2: topics.append(new(TopicRef, (text or '', None, ())))",
                "elif type_ == 32: groups.append(text or '')",
                "else: act = True",
            )
            return
        pattern = "False"
        if self._version >= 1:
            self.add("pattern_type = buf[pos]", "pos += 1")
            pattern = f"pattern_type != {_LITERAL}"
        self.add(
            f"if type_ < 3 and (type_ != 2 or not text or text == '*' or {pattern}):",
            "    complete = False",
            "if type_ == 2 and text: topics.append(new(TopicRef, (text, None, ())))",
            "elif type_ == 3 and text: groups.append(text)",
        )

    def _other_type(self) -> str:
        """Return what says that a coordinator of another type than group and transaction is for brokers only.

        Before v6 a broker itself refuses to look for a share coordinator.
        """
        return "True" if self._version >= _SHARE_SINCE else "type_ != 2"

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
