"""What is counted and measured, by Prometheus' conventions: base units, ``_total`` for counters, few and closed labels.

No label holds what a caller, a program or a service can choose: so there are only so many series, whatever comes in.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from guideway import __version__
from guideway.dsl.ast import GetStatus, IfRunning, Ping, Restart
from guideway.dsl.errors import Code
from guideway.interpreter.approvals import TicketState
from guideway.interpreter.audit.entry import Entry, Kind
from guideway.interpreter.results import Outcome, Report, Status, Step
from guideway.interpreter.risk import MODEL_VERSION
from guideway.interpreter.watch import Gate, Transaction
from guideway.server.door_watch import Delivery, TokenCheck

_LONG: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_SHORT: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper ends of the buckets, in seconds: of what services take, and of what this program takes."""

_COMMANDS: Final = tuple(command.keyword for command in (Ping, GetStatus, IfRunning, Restart))
_ENDED: Final = tuple(outcome.value for outcome in Outcome if outcome is not Outcome.RUNNING)
_DECISIONS: Final = {True: "approved", False: "denied"}

GAUGES: Final = {
    "calls_running": "Calls that are running.",
    "calls_queued": "Calls that wait for a place.",
    "sessions_open": "Sessions of older protocol revisions that are open.",
}
"""What can be read at the doors, by ``DoorWatch.reads``."""

THROTTLED: Final = "throttled"


class Metrics:
    """All metrics, in a registry of their own: watches runs, the store and the doors (``interpreter.watch``)."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._read = _Read()
        registry.register(self._read)

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"guideway_{name}", what, labels, registry=registry)

        def seconds(name: str, what: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"guideway_{name}_seconds", what, labels, buckets=buckets, registry=registry)

        build = Gauge("guideway_build_info", "What runs.", ["version", "risk_model"], registry=registry)
        build.labels(__version__, MODEL_VERSION).set(1)
        self._runs = counter("runs", "Runs, by how they ended.", "status")
        self._run_seconds = seconds("run_duration", "Seconds that runs took.", _LONG, "status")
        self._refusals = counter("refusals", "Refused programs, by the code of the refusal.", "code")
        self._steps = counter("steps", "Steps, by command and outcome.", "command", "outcome")
        self._step_seconds = seconds("step_duration", "Seconds that steps took.", _LONG, "command")
        self._gate_seconds = seconds("gate_duration", "Seconds that gates took.", _SHORT, "gate")
        self._lease_seconds = seconds(
            "lease_wait", "Seconds that restarts waited for what others held, by whether they got it.", _LONG, "outcome"
        )
        self._asked = counter("tickets_asked", "Tickets that were made.")
        self._decided = counter("tickets_decided", "Tickets that a person decided on.", "decision")
        self._expired = counter("tickets_expired", "Tickets whose time was over before they were used.")
        self._open = Gauge(
            "guideway_tickets_open", "Tickets in the store that are open, its own replicas' too.", ["state"],
            registry=registry,
        )  # fmt: skip
        self._transactions = seconds(
            "store_transaction_duration", "Seconds that transactions of the store took.", _SHORT, "kind"
        )
        self._store_failures = counter("store_failures", "Transactions of the store that could not be done.", "kind")
        self._records = counter("audit_records", "Records written to the audit trail, by their kind.", "kind")
        self._unrecorded = counter("audit_failures", "Attempts to write the audit trail that failed.")
        self._tokens = counter("token_checks", "Requests, by what became of their token.", "result")
        self._deliveries = counter(
            "webhook_deliveries", "Attempts to deliver notices, by the webhook's name.", "webhook", "outcome"
        )
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """Let each series be there from the start: a rate over one that begins with 1 misses that one."""
        for status in Status:
            self._runs.labels(status.value)
        for code in Code:
            self._refusals.labels(code.value)
        for command in _COMMANDS:
            for outcome in _ENDED:
                self._steps.labels(command, outcome)
        for decision in _DECISIONS.values():
            self._decided.labels(decision)
        for record in Kind:
            self._records.labels(record.value)
        for result in TokenCheck:
            self._tokens.labels(result.value)
        for transaction in Transaction:
            self._store_failures.labels(transaction.value)

    @contextmanager
    def gate(self, gate: Gate) -> Iterator[None]:
        """Measure a gate, whatever it says."""
        since = time.perf_counter()
        try:
            yield
        finally:
            self._gate_seconds.labels(gate.value).observe(time.perf_counter() - since)

    def stepped(self, step: Step) -> None:
        """Count a step."""
        self._steps.labels(step.command, step.outcome.value).inc()
        if step.outcome is not Outcome.REFUSED:
            self._step_seconds.labels(step.command).observe(step.seconds)

    def waited(self, seconds: float, *, got: bool) -> None:
        """Measure a wait for what others held."""
        self._lease_seconds.labels("got" if got else "busy").observe(seconds)

    def ran(self, report: Report) -> None:
        """Count a run."""
        self._runs.labels(report.status.value).inc()
        self._run_seconds.labels(report.status.value).observe(report.seconds)
        if report.refusal is not None:
            self._refusals.labels(report.refusal.code.value).inc()

    def transacted(self, kind: Transaction, seconds: float, *, done: bool) -> None:
        """Measure a transaction."""
        self._transactions.labels(kind.value).observe(seconds)
        if not done:
            self._store_failures.labels(kind.value).inc()

    def recorded(self, entries: Iterable[Entry]) -> None:
        """Count records of the audit trail, and what became of tickets, which is recorded there."""
        for entry in entries:
            self._records.labels(entry.kind.value).inc()
            match entry.kind:
                case Kind.TICKET_ASKED:
                    self._asked.inc()
                case Kind.TICKET_DECIDED:
                    self._decided.labels(_DECISIONS[bool(entry.facts["approved"])]).inc()
                case Kind.TICKET_EXPIRED:
                    self._expired.inc()
                case _:
                    pass

    def unrecorded(self) -> None:
        """Count a failure to write the audit trail."""
        self._unrecorded.inc()

    def checked(self, result: TokenCheck) -> None:
        """Count a token."""
        self._tokens.labels(result.value).inc()

    def delivered(self, webhook: str, outcome: Delivery) -> None:
        """Count an attempt to deliver a notice."""
        self._deliveries.labels(webhook, outcome.value).inc()

    def reads(self, name: str, value: Callable[[], float]) -> None:
        """Read one of ``GAUGES`` whenever metrics are asked for."""
        self._read.gauges[name] = value

    def counts(self, name: str, values: Callable[[], Mapping[str, int]]) -> None:
        """Read counts by their reason whenever metrics are asked for."""
        self._read.counters[name] = values

    def open_tickets(self, counts: Mapping[str, int] | None) -> None:
        """Say how many tickets are open, by state; None where that cannot be known."""
        for state in (TicketState.PENDING, TicketState.APPROVED):
            self._open.labels(state.value).set(float("nan") if counts is None else counts.get(state.value, 0))


class _Read(Collector):
    """What is counted elsewhere anyway, and read when somebody asks."""

    def __init__(self) -> None:
        self.gauges: dict[str, Callable[[], float]] = {}
        self.counters: dict[str, Callable[[], Mapping[str, int]]] = {}

    def collect(self) -> Iterable[Metric]:
        """Return what there is now."""
        for name, what in GAUGES.items():
            if (value := self.gauges.get(name)) is not None:
                yield GaugeMetricFamily(f"guideway_{name}", what, value())
        if (counts := self.counters.get(THROTTLED)) is not None:
            refused = CounterMetricFamily(
                f"guideway_{THROTTLED}",
                "Requests that were turned away, by the bound that they met.",
                labels=["reason"],
            )
            for reason, count in sorted(counts().items()):
                refused.add_metric([reason], count)
            yield refused
