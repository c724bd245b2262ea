"""Replies that list topics and groups, without those that a client may not see.

    hears_body = response_apis = listings.LISTED

    def on_response(self, request, response, peer, now_ms):
        return listings.without(
            request, response, keep_topic=self.is_public, topic_name=self.host.topic_name
        )

- `LISTED` are the APIs whose replies can be cut: Metadata, DescribeTopicPartitions, ListGroups, OffsetFetch,
  DescribeConfigs, ListConfigResources, DescribeAcls, DescribeLogDirs, DescribeTransactions,
  ListPartitionReassignments and DescribeShareGroupOffsets, in every version.
- Items are cut out as bytes; all others stay as the broker wrote them. A config or an ACL is kept by its resource.
- An item that says that a topic or group is not authorized stays, wherever its code stands: the client has asked for
  it. An item that has only a topic's id goes if the name of the id is not known.
- A reply that cannot be read is never passed on: an error takes its place.
"""

from policies.listings import LISTED, without

__all__ = ["LISTED", "without"]
