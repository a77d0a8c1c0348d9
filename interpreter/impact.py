"""The gate for impact: tiers, change windows, quotas, and a person who says yes; and what a run that passed may do.

It decides on the whole program, before any effect, and again at each mutation. A program that changes nothing passes
without a look at any store. Where something cannot be decided, nothing mutates.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from guideway.dsl.analysis import Analysis
from guideway.dsl.errors import Code, Diagnostic, Refusal
from guideway.dsl.printer import format_one_line
from guideway.interpreter.approvals import (
    TICKET_ID,
    Binding,
    Cause,
    Need,
    Question,
    Ticket,
    TicketState,
    Who,
    digest,
    one_line,
)
from guideway.interpreter.clearance import Clearance
from guideway.interpreter.leases import Leases, Place, ProcessLeases
from guideway.interpreter.notices import Event, Outbox, of_run
from guideway.interpreter.principal import Principal
from guideway.interpreter.quotas import Allowance, overrun
from guideway.interpreter.records import Records, StoreUnavailable, TooManyOpen
from guideway.interpreter.results import Step
from guideway.interpreter.risk import Tier
from guideway.interpreter.service import Service
from guideway.interpreter.weighing import (
    DEFAULT_RULES,
    Bounds,
    Candidate,
    Foreseen,
    Rules,
    Weighed,
    closed,
    mutations,
    weigh,
)

_log = logging.getLogger(__name__)


class NeedsApproval(Refusal):
    """A person has to say yes first: nothing has run, and the ticket waits for them."""

    def __init__(self, diagnostics: Iterable[Diagnostic], analysis: Analysis, ticket: Ticket) -> None:
        super().__init__(diagnostics, analysis.program.source)
        self.ticket = ticket

    def to_json(self) -> dict[str, Any]:
        """Return the machine form, with the ticket."""
        return super().to_json() | {"approval": self.ticket.to_json()}


class ImpactGate:
    """Decides who may change what, how often, when, and after whose yes. One for the whole process.

    Without ``records`` whatever needs one is refused: a quota, a ticket. ``leases`` says what runs hold at once, and
    ``outbox`` takes what people are told of.
    """

    def __init__(
        self,
        rules: Rules = DEFAULT_RULES,
        *,
        records: Records | None = None,
        leases: Leases | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.rules = rules
        self.outbox = outbox
        self.records = records
        self.leases: Leases = leases or ProcessLeases()

    async def clear(self, candidate: Candidate) -> Clearance:
        """Return what a run may do. Raises ``Refusal``, ``NeedsApproval`` among them."""
        analysis, inventory = candidate.analysis, candidate.inventory
        clearance = Clearance(self, candidate.run_id, candidate.caller, inventory)
        if not any(command.mutates for command in analysis.commands):
            return clearance
        weighed = weigh(analysis, inventory)
        clearance.tier = weighed.tier
        clearance.left = mutations(candidate.worst_case)
        used: Ticket | None = None
        try:
            if candidate.asked.ticket is not None:
                used = await self._use(candidate, candidate.asked.ticket)
                clearance.glass_broken = _broken(used)
                clearance.reserved = True
            else:
                clearance.reserved = await self._reserve(candidate, weighed)
        except StoreUnavailable as error:
            _log.error("run %s: refused, the store: %s", candidate.run_id, error)
            message = "the store of approvals and quotas cannot be used now"
            raise refused(analysis, Code.STORE_UNAVAILABLE, message) from error
        self._tell(candidate, clearance, used)
        return clearance

    def _tell(self, candidate: Candidate, clearance: Clearance, used: Ticket | None) -> None:
        """Let people be told of a run that was let through, where the rules say so. Nobody waits for it."""
        if self.outbox is None:
            return
        events = [Event.REVIEW] if clearance.tier is Tier.REVIEW else []
        events += [Event.BREAK_GLASS] if clearance.glass_broken else []
        for event in events:
            self.outbox.enqueue(
                of_run(
                    event,
                    candidate.now,
                    run_id=candidate.run_id,
                    digest=digest(candidate.analysis.program),
                    caller=candidate.caller,
                    tier=clearance.tier,
                    worst_case=candidate.worst_case.targets,
                    client_says=_words(candidate.asked.client_says),
                    ticket=used,
                )
            )

    async def foresee(self, candidate: Candidate, *, look: bool) -> Foreseen:
        """Return what stands between a program and its run, and change nothing. Raises ``StoreUnavailable``.

        Uses that count against quotas are looked up in the store only if ``look`` says so; else there are none.
        """
        allowances = self._allowances(candidate)
        weighed = weigh(candidate.analysis, candidate.inventory)
        if look and allowances:
            overruns = await self._records().overruns(allowances, candidate.now)
        else:
            overruns = [found for each in allowances if (found := overrun(each, (), candidate.now)) is not None]
        return Foreseen(weighed, closed(candidate), tuple(overruns), looked=look or not allowances)

    def policy(self, tenant: str | None) -> str:
        """Return the version of the policy of a tenant: what tickets made here are bound to."""
        return self.rules.policy.get(tenant, "")

    def places(self, service: Service, caller: Principal) -> list[Place]:
        """Return what a restart of a service holds."""
        places = [Place(f"service {service.key}", 1, f"service `{service.name}`")]
        if service.group is not None and service.group in self.rules.groups:
            places.append(Place(f"group {service.group}", self.rules.groups[service.group], f"group `{service.group}`"))
        at_once = self.rules.bounds.get(caller.tenant, Bounds()).at_once
        if at_once is not None:
            places.append(Place(f"tenant {caller.tenant or ''}", at_once, "the tenant's restarts at once"))
        return places

    async def give_back(self, clearance: Clearance, done: Sequence[Step], outcome: str) -> None:
        """Give back what a run reserved and did not do, and say how it ended. Never raises."""
        used: Counter[str] = Counter()
        for step in done:
            used.update(self._keys(clearance.inventory.service(step.target), clearance.caller.tenant))
        try:
            await self._records().settle(clearance.run_id, used, outcome, time.time())
        except StoreUnavailable as error:  # what was reserved goes on counting: the safe side
            _log.error("run %s: what it did not do could not be given back: %s", clearance.run_id, error)

    async def _use(self, candidate: Candidate, ticket_id: str) -> Ticket:
        """Use a ticket up, and return it. Raises ``Refusal``."""
        records, analysis = self._records(), candidate.analysis
        if not re.fullmatch(TICKET_ID, ticket_id):  # not every store takes any text
            raise refused(analysis, Code.APPROVAL_UNKNOWN, "there is no such ticket")
        shut = closed(candidate)
        if shut:
            ticket = await records.ticket(ticket_id, candidate.later)  # what it asks never changes: no race
            unasked = [] if ticket is None else [each for each in shut.values() if each.message not in _broken(ticket)]
            if unasked:
                raise Refusal(unasked, analysis.program.source)
        answer = await records.use(
            ticket_id, self._binding(candidate), candidate.run_id, self._allowances(candidate), candidate.later
        )
        match answer:
            case Ticket() as used:
                return used
            case Code.APPROVAL_REQUIRED, words:
                pending = await records.ticket(ticket_id, candidate.later)
                if pending is None:
                    raise refused(analysis, Code.APPROVAL_UNKNOWN, words)
                raise NeedsApproval([_diagnostic(analysis, Code.APPROVAL_REQUIRED, words)], analysis, pending)
            case code, words:
                raise refused(analysis, code, words)

    async def _reserve(self, candidate: Candidate, weighed: Weighed) -> bool:
        """Reserve what the run may do, and return whether anything had to be. Raises ``Refusal``."""
        shut = closed(candidate)
        if shut and candidate.asked.break_glass is None:
            raise Refusal(shut.values(), candidate.analysis.program.source)
        causes = weighed.causes if weighed.tier is Tier.APPROVAL_REQUIRED else ()
        allowances = self._allowances(candidate)
        if allowances and not causes and not shut:
            overruns = await self._records().reserve(candidate.run_id, allowances, candidate.later)
            causes = weighed.above_quota(overruns)
        if causes or shut:
            await self._ask(candidate, weighed, causes + weighed.frozen(shut), in_freeze=bool(shut))
        return bool(allowances)

    async def _ask(
        self, candidate: Candidate, weighed: Weighed, causes: tuple[Cause, ...], *, in_freeze: bool
    ) -> NoReturn:
        """Ask a person. Raises ``NeedsApproval``, or ``Refusal`` where there is nobody to ask."""
        analysis, worst_case, asked = candidate.analysis, candidate.worst_case, candidate.asked
        if not self.rules.can_ask(candidate.caller):
            message = f"a person must approve this first, and nobody can ({_why(causes)})"
            raise refused(analysis, Code.NOBODY_TO_ASK, message)
        question = Question(
            binding=self._binding(candidate),
            program=format_one_line(analysis.program),
            causes=causes,
            worst_case=worst_case.targets,
            seconds=candidate.seconds,
            client_says=_words(asked.client_says),
            break_glass=_words(asked.break_glass) if in_freeze else None,
            tiers=weighed.tiers,
        )
        try:
            ticket = await self._records().ask(
                question, candidate.later, lifetime=self.rules.lifetime, most_open=self.rules.most_open
            )
        except TooManyOpen as error:
            raise refused(analysis, Code.BUDGET_EXCEEDED, str(error)) from None
        if ticket.state is TicketState.APPROVED:
            words = "a person has approved this: it runs once, when it comes with its ticket"
            raise NeedsApproval([_diagnostic(analysis, Code.APPROVAL_REQUIRED, words)], analysis, ticket)
        raise needs_approval(analysis, ticket, causes)

    def _binding(self, candidate: Candidate) -> Binding:
        caller = candidate.caller
        digested = digest(candidate.analysis.program)
        return Binding(digested, Who.of(caller), caller.tenant, self.policy(caller.tenant))

    def _records(self) -> Records:
        if self.records is None:
            raise StoreUnavailable("none is configured")
        return self.records

    async def uses(self, services: Iterable[tuple[str | None, Service]], now: float) -> dict[str, Sequence[float]]:
        """Return when each restart was made that counts against a service's quota, by ``Service.key``.

        Each service is with the tenant whose it is. Raises ``StoreUnavailable``.
        """
        keys = {self._keys(service, tenant)[0]: service.key for tenant, service in services}
        made = await self._records().uses(list(keys), now) if keys else {}
        return {key: made.get(counted, ()) for counted, key in keys.items()}

    def _keys(self, service: Service, tenant: str | None) -> tuple[str, ...]:
        """Return what one restart of a service is counted under."""
        return f"service {service.key}", f"tenant {tenant or ''}"

    def _allowances(self, candidate: Candidate) -> list[Allowance]:
        """Return the bounds that a program's worst case is measured by; services of one unit count together."""
        tenant, seconds = candidate.caller.tenant, candidate.seconds
        times = mutations(candidate.worst_case)
        services = {name: candidate.inventory.service(name) for name in times}
        found = []
        if any(service.risk.limits.bounds for service in services.values()):
            together: Counter[str] = Counter()  # by what is counted: names of one unit are one service
            for name, service in services.items():
                together[self._keys(service, tenant)[0]] += times[name]
            for name, service in services.items():
                key, _ = self._keys(service, tenant)
                if service.risk.limits.bounds:
                    found.append(Allowance(key, name, together[key], service.risk.limits, seconds))
        bounds = self.rules.bounds.get(tenant)
        if bounds is not None and bounds.quota.bounds:
            quota = bounds.quota
            found.append(Allowance(f"tenant {tenant or ''}", "the tenant's restarts", times.total(), quota, seconds))
        return found

    async def close(self) -> None:
        """Give back what store and leases hold open."""
        await self.leases.close()
        if self.records is not None:
            await self.records.close()


def refused(analysis: Analysis, code: Code, message: str) -> Refusal:
    """Return the refusal of a whole program, at its first mutation."""
    return Refusal([_diagnostic(analysis, code, message)], analysis.program.source)


def needs_approval(analysis: Analysis, ticket: Ticket, causes: Sequence[Cause] | None = None) -> NeedsApproval:
    """Return the refusal of a program that waits for a person, with why: its ticket's causes, where none are given."""
    message = f"a person must approve this first ({_why(ticket.question.causes if causes is None else causes)})"
    return NeedsApproval([_diagnostic(analysis, Code.APPROVAL_REQUIRED, message)], analysis, ticket)


def _why(causes: Sequence[Cause]) -> str:
    """Return causes in one line; what closes a service names it already."""
    return "; ".join(
        cause.source if cause.need is Need.FROZEN else f"`{cause.target}`: {cause.source}" for cause in causes
    )


def _diagnostic(analysis: Analysis, code: Code, message: str) -> Diagnostic:
    first = next(command for command in analysis.commands if command.mutates)
    return Diagnostic(code, message, first.head_span)


def _broken(ticket: Ticket) -> frozenset[str]:
    """Return what a ticket breaks: what it showed as closing a service, and nothing else that closes the same one."""
    if ticket.question.break_glass is None:
        return frozenset()
    return frozenset(cause.source for cause in ticket.question.causes if cause.need is Need.FROZEN)


def _words(text: str | None) -> str | None:
    return None if text is None else one_line(text)
