"""The bodies of requests and replies as typed messages, for policies: read, changed, made.

    message = request.message                                   # with Need.BODY
    topics = [
        messages.changed(topic, {"replication_factor": 3})
        for topic in messages.structs(message, "topics")
    ]
    return Forward(body=messages.encode(messages.changed(message, {"topics": topics})))

- A message is an instance of the codec's class of its API and version (in `kio.schema.create_topics.v7.request`, for
  example): frozen, compared by value. Fields have Kafka's names in snake_case, times without their unit
  (`throttle_time`). `isinstance` with that class tells a type checker its fields; `structs` and `value` read a field of
  every version.
- Fields are given as plain values: a struct is a mapping, an array a list, a time an integer in ms, a topic's id 16
  bytes, an enum its number. Fields that are not given have the values of an empty message, or stay as they are.
- It is the slow path: some 2 us for each array element that is read, and 5 us for each that is written.
"""

from policies.messages import (
    Fields,
    Message,
    Struct,
    changed,
    decode_request,
    decode_response,
    encode,
    error_reply,
    make_request,
    make_response,
    structs,
    value,
)

__all__ = [
    "Fields",
    "Message",
    "Struct",
    "changed",
    "decode_request",
    "decode_response",
    "encode",
    "error_reply",
    "make_request",
    "make_response",
    "structs",
    "value",
]
