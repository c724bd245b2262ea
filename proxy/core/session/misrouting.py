"""What becomes of a client that says which broker it means (KIP-1242), and has come to this port.

Rules:
- A port stands for a node, whatever broker is behind it: a client that means another node is told to rebootstrap. Its
  address is from another configuration, or from another Sluice that had this port.
- So is one that means another cluster than the brokers have named: this holds also for brokers before Kafka 4.4, which
  do not know what the client means.
- All else is judged by the broker, which gets the request as it is: at a bootstrap port, whether it is the node that
  the client means; and at any, whether the address of the node is still right.
- A node without a port of its own is advertised at the bootstrap port, where any broker may answer. A broker that
  answered for itself would send the client back to this port without end, and each time the client would drop its
  connections to all other nodes. So the broker is not told what the client means then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wire import meant_broker
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from proxy.core.session.plan import Plan
    from proxy.core.topology import Topology


def judge(plan: Plan, topology: Topology, buf: bytearray, body_at: int, end: int) -> None:
    """Note in the plan of an ApiVersions v5 what is done with it. Raises WireError if it is malformed."""
    meant = meant_broker.read(buf, body_at, end)
    if meant.is_nobody:
        return
    node_id, cluster_id = plan.peer.node_id, topology.cluster_id
    if meant.cluster_id is None or meant.node_id == meant_broker.NO_NODE:
        plan.answer = meant_broker.refusal(ErrorCode.INVALID_REQUEST)
    elif node_id not in {None, meant.node_id} or cluster_id not in {None, meant.cluster_id}:
        plan.answer = meant_broker.refusal(ErrorCode.REBOOTSTRAP_REQUIRED)
    elif node_id is None and not topology.has_port(meant.node_id):
        plan.body = meant_broker.without(buf, body_at, end)
