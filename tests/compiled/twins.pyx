# The C functions of the type files, for Python: `test_twins.py` compares them with the functions of the modules.

from proxy.core.session cimport frame_heads, paths
from proxy.shell cimport loop_limits, masks, system_calls
from wire cimport one_partition_reads, produce_runs, topic_runs


def request_at(bytearray buf, Py_ssize_t pos):
    return frame_heads.request_at(buf, pos)


def reply_at(bytearray buf, Py_ssize_t pos):
    return frame_heads.reply_at(buf, pos)


def has_prefix(bytearray buf, bytes prefix, Py_ssize_t pos):
    return frame_heads.has_prefix(buf, prefix, pos)


def head_at(bytearray buf, Py_ssize_t pos):
    return one_partition_reads.head_at(buf, pos)


def tail_at(bytearray buf, Py_ssize_t pos):
    return one_partition_reads.tail_at(buf, pos)


def single_partition_head_end(bytearray buf, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t version):
    return produce_runs.single_partition_head_end(buf, at, stop, version)


def piece(bytearray buf, Py_ssize_t pos, Py_ssize_t end):
    return produce_runs.piece(buf, pos, end)


def take_partitions(bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, bytearray packed, bint compact):
    return produce_runs.take_partitions(buf, pos, end, left, packed, compact)


def pack_topic(bytearray packed, bytearray buf, Py_ssize_t name_at, Py_ssize_t length, Py_ssize_t partitions):
    produce_runs.pack_topic(packed, buf, name_at, length, partitions)


def pack_index(bytearray packed, bytearray buf, Py_ssize_t pos):
    produce_runs.pack_index(packed, buf, pos)


def size_at(bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t width):
    return topic_runs.size_at(buf, pos, end, width)


def holds(bytearray buf, Py_ssize_t pos, Py_ssize_t end, bytes topic):
    return topic_runs.holds(buf, pos, end, topic)


def batch_at(bytearray buf, Py_ssize_t pos, Py_ssize_t end):
    return topic_runs.batch_at(buf, pos, end)


def records_at(bytearray buf, Py_ssize_t pos, Py_ssize_t end):
    return topic_runs.records_at(buf, pos, end)


def step_partitions(bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left):
    return topic_runs.step_partitions(buf, pos, end, left)


def step_topics(bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, Py_ssize_t most):
    return topic_runs.step_topics(buf, pos, end, left, most)


def sum_partitions(bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, *layout):
    fixed_bytes, has_aborted, replica_bytes, compact = layout
    return topic_runs.sum_partitions(buf, pos, end, left, fixed_bytes, has_aborted, replica_bytes, compact)


def sum_topic(bytearray buf, Py_ssize_t pos, Py_ssize_t end, bytes topic, Py_ssize_t most, bint by_id, *layout):
    fixed_bytes, has_aborted, replica_bytes, compact = layout
    return topic_runs.sum_topic(
        buf, pos, end, topic, most, by_id, fixed_bytes, has_aborted, replica_bytes, compact
    )


def find_topic(bytearray buf, Py_ssize_t pos, Py_ssize_t end, bytes topic, bint by_id, bint compact):
    return topic_runs.find_topic(buf, pos, end, topic, by_id, compact)


def follow_topic(bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t left, Py_ssize_t field_bytes, *state):
    batch_bytes, fixed_bytes, has_aborted, replica_bytes, compact = state
    return topic_runs.follow_topic(
        buf, pos, end, left, field_bytes, batch_bytes, fixed_bytes, has_aborted, replica_bytes, compact
    )


def pack_untagged(bytearray buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t version, Py_ssize_t max_bytes):
    return produce_runs.pack_untagged(buf, pos, end, version, max_bytes)


def untagged_topics_end(bytearray buf, Py_ssize_t pos, Py_ssize_t end, bint by_id):
    return produce_runs.untagged_topics_end(buf, pos, end, by_id)


def copy(bytearray buf, Py_ssize_t start, Py_ssize_t stop):
    return frame_heads.copy(buf, start, stop)


def receive(int fd, bytearray buf, Py_ssize_t start, Py_ssize_t stop):
    return system_calls.receive(fd, buf, start, stop)


def send(int fd, bytearray buf, Py_ssize_t start, Py_ssize_t stop):
    return system_calls.send(fd, buf, start, stop)


def poll(int fd, double timeout_s, int max_events):
    return system_calls.poll(fd, timeout_s, max_events)


def monotonic_ns():
    return system_calls.monotonic_ns()


def new_events():
    return system_calls.new_events()


def poll_into(bytearray found, int fd, double timeout_s, int max_events):
    return system_calls.poll_into(found, fd, timeout_s, max_events)


def put_events(bytearray found, events):
    return system_calls.put_events(found, events)


def event_at(bytearray found, Py_ssize_t place):
    return system_calls.event_at(found, place)


PAYS = system_calls.PAYS
NOT_NOW = system_calls.NOT_NOW
BROKEN = system_calls.BROKEN
MAX_EVENTS = system_calls.MAX_EVENTS
TAIL_BYTES = one_partition_reads.TAIL_BYTES
HEADS = (frame_heads.REQUEST_BYTES, frame_heads.REPLY_BYTES, frame_heads.MAX_KEPT_BYTES)
REQUEST_PATHS = (paths.PASSES, paths.GATED, paths.ASKED, paths.SHOWN, paths.GENERAL)
REPLY_PATHS = (paths.PASSES, paths.IF_UNTAGGED, paths.HEARD)
ELEMENTS = (
    produce_runs.HEAD, produce_runs.TOPIC, produce_runs.PARTITION, produce_runs.TAG_COUNT, produce_runs.TAG,
    produce_runs.END,
)
STRUCTS = (produce_runs.IN_BODY, produce_runs.IN_TOPIC, produce_runs.IN_PARTITION)
SINCE = (produce_runs.COMPACT_SINCE, produce_runs.TOPIC_IDS_SINCE, produce_runs.TOPIC_ID_BYTES)
PACKED = (produce_runs.PACKED_TOPIC_BYTES, produce_runs.INDEX_BYTES, produce_runs.RECORDS_SIZE_BYTES)
MAX_FEED_STEPS = topic_runs.MAX_FEED_STEPS
LOOP_LIMITS = {
    "READ_BYTES": loop_limits.READ_BYTES,
    "HEADROOM_BYTES": loop_limits.HEADROOM_BYTES,
    "MORE_READ_BYTES": loop_limits.MORE_READ_BYTES,
    "LARGE_BYTES": loop_limits.LARGE_BYTES,
    "STEP_EVENTS": loop_limits.STEP_EVENTS,
    "STEP_BYTES": loop_limits.STEP_BYTES,
    "SLICE_BYTES": loop_limits.SLICE_BYTES,
    "SLICE_EVENTS": loop_limits.SLICE_EVENTS,
    "CROWD_EVENTS": loop_limits.CROWD_EVENTS,
    "STALL_US": loop_limits.STALL_US,
    "MAX_BUSY": loop_limits.MAX_BUSY,
    "TURN_MS": loop_limits.TURN_MS,
    "MANY_EVENTS": loop_limits.MANY_EVENTS,
    "SLOW_STEP_MS": loop_limits.SLOW_STEP_MS,
}
MASKS = {
    "IN": masks.IN,
    "OUT": masks.OUT,
    "ERR": masks.ERR,
    "HUP": masks.HUP,
    "RDHUP": masks.RDHUP,
    "EARLY": masks.EARLY,
    "SLOWED": masks.SLOWED,
    "LINGERING": masks.LINGERING,
    "NO_EVENT": masks.NO_EVENT,
}
