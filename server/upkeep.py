"""What a server does beside its calls: it is in the trail when it begins and ends, and clears up in the store."""

import logging
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

import anyio

import guideway
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.risk import MODEL_VERSION
from guideway.server.tool import ToolServer

_log: Final = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 30.0
"""Seconds between two looks at what lost processes left."""


class Upkeep:
    """One server's. ``door`` is the transport that it serves."""

    def __init__(self, pipeline: Pipeline, server: ToolServer, door: str) -> None:
        self._pipeline = pipeline
        self._server = server
        self._about = {"server": str(uuid.uuid4()), "version": guideway.__version__, "door": door}

    def began(self) -> None:
        """Record that the server begins, and by which policy it decides."""
        rules = self._pipeline.gate.rules
        policies = {tenant or "": version for tenant, version in rules.policy.items()}
        self._put(Kind.SERVER_STARTED, {"risk_model": MODEL_VERSION, "policies": policies})

    def ended(self) -> None:
        """Record that the server ends, with what became of the runs that went on."""
        self._server.refusals.close()
        self._put(Kind.SERVER_STOPPED, self._server.runs.facts())

    async def run(self) -> None:
        """Clear up, again and again. Where the store is away, it is tried again."""
        records = self._pipeline.gate.records
        while records is not None:
            try:
                await records.sweep(time.time())
            except StoreUnavailable as error:
                _log.error("what lost processes left cannot be looked for: %s", error)
            await anyio.sleep(SWEEP_SECONDS)

    def _put(self, kind: Kind, facts: Mapping[str, Any]) -> None:
        if self._pipeline.trail is not None:
            self._pipeline.trail.put([Entry(kind, None, time.time(), self._about | dict(facts))])
