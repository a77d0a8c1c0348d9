"""What the gate for impact would say of a program: tiers and where they come from, and whether a person comes first."""

import time
from typing import Any

from guideway.dsl.analysis import Analysis, WorstCase
from guideway.dsl.ast import Command
from guideway.dsl.record import Record
from guideway.interpreter.approvals import Cause, needs
from guideway.interpreter.pipeline import Pipeline
from guideway.interpreter.principal import Principal
from guideway.interpreter.records import StoreUnavailable
from guideway.interpreter.risk import Tier, TierSource, own_tier
from guideway.interpreter.weighing import NOTHING_ASKED, Candidate, Foreseen
from guideway.server.cli.console import BOLD, Console

NOT_LOOKED = "not looked at"


class Outlook(Record):
    """``commands`` are each command that a program names with what it names, and all that its tier comes from."""

    commands: list[tuple[type[Command], str, TierSource, list[TierSource]]]
    foreseen: Foreseen
    can_ask: bool
    quotas: str

    @property
    def tier(self) -> Tier:
        """The program's tier: that of its highest command."""
        return max((effective.tier for _, _, effective, _ in self.commands), default=Tier.SAFE)

    @property
    def causes(self) -> list[Cause]:
        """What a person would be asked for."""
        weighed = self.foreseen.weighed
        causes = list(weighed.causes) if weighed.tier is Tier.APPROVAL_REQUIRED else []
        return [*causes, *weighed.above_quota(self.foreseen.overruns)]

    @property
    def needs(self) -> list[str]:
        """What makes the program need a person, in the words of every door."""
        return needs([*self.causes, *self.foreseen.weighed.frozen(self.foreseen.closed)])

    @property
    def closed(self) -> list[str]:
        """What may not be changed now, in words."""
        return [why.message for why in self.foreseen.closed.values()]

    def verdict(self) -> str | None:
        """Say what stands between the program and its run, None where nothing does."""
        if self.closed:
            return f"would be refused now: {self.closed[0]}; a person can let it run all the same"
        if not self.causes:
            return None
        return (
            "a person must approve it first"
            if self.can_ask
            else "would be refused: a person must approve it first, and nobody can"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            **_tier(self.tier),
            "commands": [
                {
                    "command": command.keyword,
                    "target": name,
                    **_tier(effective.tier),
                    "source": effective.source,
                    "sources": [{**_tier(each.tier), "source": each.source} for each in sources],
                }
                for command, name, effective, sources in self.commands
            ],
            "approval": {
                "needed": bool(self.causes),
                "needs_person": self.needs,
                "causes": [cause.to_json() for cause in self.causes],
                "closed": self.closed,
                "can_ask": self.can_ask,
                "quotas": self.quotas,
            },
        }

    def show(self, console: Console) -> None:
        """Write it for a person."""
        console.line(("tier", BOLD), f" {_words(self.tier)}")
        for command, name, effective, _ in self.commands:
            console.line(f'  {command.keyword} "{name}": {_words(effective.tier)}, {effective.source}')
        if self.closed or self.causes:
            console.line(("needs a person", BOLD), f": {', '.join(self.needs)}")
        for line in (*self.closed, *(f"`{cause.target}`: {cause.source}" for cause in self.causes)):
            console.line(f"  {line}")
        if self.quotas.startswith(NOT_LOOKED):
            console.line(("quotas", BOLD), f" {self.quotas}")


async def look_ahead(
    pipeline: Pipeline, analysis: Analysis, worst: WorstCase, caller: Principal, *, store_is_there: bool
) -> Outlook:
    """Return what the gate would say now. Every name of the program has to be known. Makes no store, and closes it."""
    inventory = pipeline.inventory_of(caller)
    commands = []
    for command, name in sorted(analysis.targets, key=lambda target: (target[1], target[0].keyword)):
        if command.mutates:
            risk = inventory.service(name).risk
            commands.append((command, name, risk.effective(command), list(risk.sources(command))))
        else:
            commands.append((command, name, own_tier(command), [own_tier(command)]))
    candidate = Candidate(analysis, worst, inventory, caller, NOTHING_ASKED, "plan", time.time())
    quotas = "looked at"
    try:
        try:
            foreseen = await pipeline.gate.foresee(candidate, look=store_is_there)
        except StoreUnavailable as error:
            foreseen = await pipeline.gate.foresee(candidate, look=False)
            quotas = f"{NOT_LOOKED}: {error}"
        else:
            if not foreseen.looked:
                quotas = f"{NOT_LOOKED}: there is no store yet, and so no restart that counts"
    finally:
        await pipeline.close()
    return Outlook(commands, foreseen, pipeline.gate.rules.can_ask(caller), quotas)


def _tier(tier: Tier) -> dict[str, Any]:
    return {"tier": int(tier), "label": tier.label}


def _words(tier: Tier) -> str:
    return f"{tier:d} {tier.label}"
