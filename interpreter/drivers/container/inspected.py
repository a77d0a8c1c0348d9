"""What an engine says of a container: its state as one of ours, and why it ended, in words.

Owns the meaning of the states of Docker and Podman, and how a log is framed. Reaches nothing.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from guideway.interpreter.drivers.base import Fault, Observation
from guideway.interpreter.drivers.container.engine import NOT_AN_ENGINE
from guideway.interpreter.results import Reason, State

_PAUSED: Final = "paused"
_GIVEN: Final = 10  # seconds to stop in, where a container does not say otherwise

_STATES: Final = {
    "initialized": State.STARTING,  # Podman's: made ready to run
    _PAUSED: State.DEGRADED,  # its processes are there, and do nothing
    "restarting": State.STARTING,  # it ended, and its restart policy is about to start it again
    "stopping": State.STOPPING,  # Podman's; Docker says "running" meanwhile
    "stopped": State.STOPPING,  # Podman's: it ended, which Podman has yet to deal with
    "removing": State.STOPPING,
}
_HEALTH: Final = {
    "": State.RUNNING,
    "none": State.RUNNING,
    "healthy": State.RUNNING,
    "starting": State.STARTING,
    "unhealthy": State.DEGRADED,
}
_KNOWN: Final = {*_STATES, "running", "created", "exited", "dead"}
# 143 is that it was ended by SIGTERM: how a stop is asked for, and not every program takes that for a good end.
_GOOD_ENDS: Final = {0, 143}


class _Part(BaseModel):
    """Part of an answer, which has more in it."""

    model_config = ConfigDict(frozen=True, strict=True)


class _Check(_Part):
    code: int = Field(alias="ExitCode")
    output: str = Field(alias="Output")


class _Health(_Part):
    status: str = Field(alias="Status")
    log: list[_Check] | None = Field(None, alias="Log")


class _State(_Part):
    status: str = Field(alias="Status")
    started: str = Field(alias="StartedAt")
    code: int = Field(alias="ExitCode", ge=-(2**31), lt=2**32)  # Windows counts so far
    error: str = Field(alias="Error")
    out_of_memory: bool = Field(alias="OOMKilled")
    health: _Health | None = Field(None, alias="Health")


class _Config(_Part):
    tty: bool = Field(alias="Tty")
    stop_seconds: int | None = Field(None, alias="StopTimeout")


class _Host(_Part):
    removes: bool = Field(False, alias="AutoRemove")


class Container(_Part):
    """A container at one moment."""

    id: str = Field(alias="Id", min_length=12)
    path: str = Field(alias="Name")
    restarts: int = Field(alias="RestartCount")
    now: _State = Field(alias="State")
    config: _Config = Field(alias="Config")
    host: _Host = Field(_Host(AutoRemove=False), alias="HostConfig")

    @classmethod
    def of(cls, answer: bytes, name: str) -> "Container":
        """Return the container of that name of what an engine answered. Raises ``Fault``.

        Who asks for ``cafe`` is answered with a container whose id begins so, where none has that name.
        """
        try:
            found = cls.model_validate_json(answer)
        except ValidationError:
            raise Fault(Reason.UNKNOWN, NOT_AN_ENGINE) from None
        if found.path.removeprefix("/") != name:
            raise Fault(Reason.NOT_FOUND, "the engine has no container of the configured name")
        if found.now.status not in _KNOWN or found.health not in _HEALTH:
            raise Fault(Reason.UNKNOWN, "the engine gives the container a state that is not known here", found.about())
        return found

    @property
    def state(self) -> State:
        """The state, as one of ours."""
        match self.now.status:
            case "running":
                return _HEALTH[self.health]
            case "created" | "exited" | "dead":
                well = self.now.code in _GOOD_ENDS and not self.now.error and self.now.status != "dead"
                return State.STOPPED if well else State.FAILED
            case other:
                return _STATES[other]

    @property
    def is_up(self) -> bool:
        """Whether a restart would take something down."""
        return self.now.status in {"running", _PAUSED, "stopping"}

    @property
    def is_paused(self) -> bool:
        """Whether its processes were frozen."""
        return self.now.status == _PAUSED

    @property
    def is_removed_at_end(self) -> bool:
        """Whether its engine removes it when it ends (``--rm``)."""
        return self.host.removes

    @property
    def returns(self) -> bool:
        """Whether it ended, and the engine is about to start it again."""
        return self.now.status == "restarting"

    @property
    def is_ending(self) -> bool:
        """Whether it ended, and its engine has yet to say how."""
        return self.now.status == "stopped"

    @property
    def ended_well(self) -> bool:
        """Whether it ran to its end, with success, and stays there."""
        return self.now.status == "exited" and self.now.code == 0 and not self.now.error and not self.now.out_of_memory

    @property
    def identity(self) -> str | None:
        """What is another after each start, by whomever, None where nothing runs."""
        return f"{self.id[:12]}@{self.now.started}" if self.is_up else None

    @property
    def health(self) -> str:
        """What its health check comes to, in the engine's word; empty where there is none or it does not run."""
        return self.now.health.status if self.now.health is not None and self.now.status == "running" else ""

    @property
    def stop_seconds(self) -> int:
        """How long it may take to stop before it is killed; below 0 for ever."""
        return _GIVEN if self.config.stop_seconds is None else self.config.stop_seconds

    def observation(self) -> Observation:
        """Return what the engine says, in our words."""
        return Observation(self.state, self.identity, self.description())

    def description(self) -> str:
        """Return all that there is to say of it, what others said last."""
        times = f", started again {self.restarts} times by its restart policy" if self.restarts else ""
        lines = (self.about() + times, self.why(), self.now.error, self._complaint())
        return "\n".join(line for line in lines if line)

    def about(self) -> str:
        """Return its state in the engine's words."""
        return self.now.status + (f" ({self.health})" if self.health not in {"", "none"} else "")

    def why(self) -> str:
        """Return why it last ended, in words; empty where that was well, or it runs, or never did."""
        if self.now.out_of_memory:
            return "the kernel killed it because memory ran out"
        if self.is_up or self.now.status == "created" or self.now.code == 0:
            return ""
        return f"its main process exited with status {self.now.code}"

    def _complaint(self) -> str:
        """Return what the last health check said that failed."""
        if self.health != "unhealthy" or self.now.health is None or not self.now.health.log:
            return ""
        return self.now.health.log[-1].output


def text_of(log: bytes, *, tty: bool) -> str:
    """Return a log as text. Without a terminal each piece comes behind eight bytes: its stream, and its length last."""
    if tty:
        return log.decode(errors="replace")
    said, at = bytearray(), 0
    while at + 8 <= len(log):
        end = at + 8 + int.from_bytes(log[at + 4 : at + 8], "big")
        said += log[at + 8 : end]
        at = end
    return said.decode(errors="replace")
