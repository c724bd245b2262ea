"""Replies that tell of topics, groups and transactional ids, without those that a client may not see.

    hears_body = response_apis = listings.LISTED

    def on_response(self, request, response, peer, now_ms):
        return listings.without(
            request, response, allows=self.may_see, topic_name=self.host.topic_name
        )

- `LISTED` are the APIs whose replies can be cut, in every version: those that list, and those that describe groups.
  `FILTERED` are those of them that Kafka filters for each client, too.
- `allows(kind, name, operation)` is asked of each name. All other bytes stay as the broker wrote them.
- An item that the request has not named is left out, and one that it has named is refused. A group is refused if it
  uses a topic that is hidden.
- An item that says that it is not authorized, or that its id is unknown, stays, wherever its code stands: the client
  has asked for it. Another that has only a topic's id goes if the name of the id is not known.
- A reply that cannot be read is never passed on: an error takes its place.
"""

from policies.listings import FILTERED, LISTED, without
from wire.authorization import Operation, ResourceType

__all__ = ["FILTERED", "LISTED", "Operation", "ResourceType", "without"]
