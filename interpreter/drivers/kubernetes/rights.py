"""What the API server's refusals mean, and the RBAC rule that would lift one of them for a single object.

Reaches nothing.
"""

import json
from typing import Final

from guideway.interpreter.drivers.base import SAYS_WHAT_TO_GRANT, Fault
from guideway.interpreter.drivers.kubernetes.cluster import Lost, Refusal
from guideway.interpreter.drivers.kubernetes.workload import WORDS
from guideway.interpreter.results import Reason

#: What a look and a restart ask for.
VERBS: Final = ("get", "patch")


def fault_of(refusal: Refusal, kind: str) -> Fault:
    """Return what a refusal means that came for a workload of a kind."""
    match refusal.status:
        case 401:
            return Fault(
                Reason.NO_PERMISSION,
                "the API server does not accept this process's credentials: the token or certificate may have run out",
                refusal.text,
            )
        case 403:
            return Fault(
                Reason.NO_PERMISSION,
                f"the API server does not let this process do that{SAYS_WHAT_TO_GRANT}",
                refusal.text,
            )
        case 404:
            words = f"the namespace has no {WORDS[kind]} of the configured name"
            return Fault(Reason.NOT_FOUND, words, refusal.text)
        case 409:
            return Fault(
                Reason.START_FAILED,
                "it was changed by somebody else at the same moment, again and again (conflict)",
                refusal.text,
            )
        case 429 | 500 | 502 | 503 | 504:
            lost = Lost("the API server cannot answer now")
            lost.output = refusal.text
            return lost
        case 400 | 422:
            return Fault(Reason.START_FAILED, "the API server does not accept the restart", refusal.text)
        case status:
            return Fault(Reason.UNKNOWN, f"the API server answered with status {status}", refusal.text)


def role_rule(kind: str, name: str) -> str:
    """Return the rule of a ``Role`` in the workload's namespace that lets one restart it alone, as YAML in one line."""
    return (
        f'{{apiGroups: ["apps"], resources: ["{kind}s"], resourceNames: [{json.dumps(name)}],'
        f" verbs: {json.dumps(list(VERBS))}}}"
    )
