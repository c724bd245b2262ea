"""Sluice's one import package for other people's code: the contracts of plug-ins, and the names that they use.

    from sluice import FORWARD, ApiKey, ErrorCode, Forward, Peer, Policy, Reject, Request

- `sluice.testing` has the test bench for policies, and a real Sluice for tests with real clients.
- `sluice.messages` reads, changes and makes the typed messages in the bodies of requests and replies.
- `sluice.listings` cuts topics and groups out of replies.
- `python -m sluice` is the command `sluice`.

Rules:
- Only this package is public. `policies`, `wire` and `proxy` are internal: any version may change them.
- The modules here have names and no logic, and no other room imports them.
- Importing `sluice` loads neither Trio nor the codec, nor any module that the compiled build compiles, so that
  `python -m sluice` can still choose the build.
"""

from policies.api import (
    ANONYMOUS,
    EXEMPT,
    FORWARD,
    TOPIC_NAMES,
    Deny,
    EffectiveQuota,
    Forward,
    Gate,
    Hold,
    Host,
    InTurns,
    Need,
    Outcome,
    Patch,
    Peer,
    Policy,
    PolicyConfigError,
    PolicyRefusal,
    QuotaViolation,
    Reject,
    Replace,
    Request,
    Respond,
    Response,
    Result,
    Throttle,
    UnreadableRequestError,
    Verdict,
)
from policies.audit_facts import AuditFacts, AuditItem
from policies.crowd import Crowd
from policies.custom_metrics import PolicyCounter, PolicyHistogram
from policies.host_tools import TooManyCallsError
from policies.live_changes import TakesLiveChanges
from policies.policy_log import PolicyLog
from policies.tokens import Token, TokenProvider
from policies.topics_question import TopicsQuestion
from policies.who_settings import Teams, Who
from wire.apis import Api, ApiKey
from wire.authorization import RESOURCE_APIS, Ask, Operation, ResourceType
from wire.batch_heads import BatchHead
from wire.errors import ErrorCode, WireError
from wire.fetch import FetchHead, ShareFetchHead
from wire.produce import ProduceWalker
from wire.reply_errors import ReplyErrors
from wire.request_names import RequestNames
from wire.topic_existence import ExistingTopic
from wire.topic_refs import TopicRef

__all__ = [
    "ANONYMOUS",
    "EXEMPT",
    "FORWARD",
    "RESOURCE_APIS",
    "TOPIC_NAMES",
    "Api",
    "ApiKey",
    "Ask",
    "AuditFacts",
    "AuditItem",
    "BatchHead",
    "Crowd",
    "Deny",
    "EffectiveQuota",
    "ErrorCode",
    "ExistingTopic",
    "FetchHead",
    "Forward",
    "Gate",
    "Hold",
    "Host",
    "InTurns",
    "Need",
    "Operation",
    "Outcome",
    "Patch",
    "Peer",
    "Policy",
    "PolicyConfigError",
    "PolicyCounter",
    "PolicyHistogram",
    "PolicyLog",
    "PolicyRefusal",
    "ProduceWalker",
    "QuotaViolation",
    "Reject",
    "Replace",
    "ReplyErrors",
    "Request",
    "RequestNames",
    "ResourceType",
    "Respond",
    "Response",
    "Result",
    "ShareFetchHead",
    "TakesLiveChanges",
    "Teams",
    "Throttle",
    "Token",
    "TokenProvider",
    "TooManyCallsError",
    "TopicRef",
    "TopicsQuestion",
    "UnreadableRequestError",
    "Verdict",
    "Who",
    "WireError",
]
