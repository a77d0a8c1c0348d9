"""What the tables of the gate for impact may hold: risk, quotas, groups, freezes, approvals, and their store.

Every default is safe: what is not stated of a service asks a person. What tables say of each other is checked by
``risk_checks``.
"""

from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, model_validator

from guideway.interpreter.approvals import LIFETIME
from guideway.interpreter.probes.addresses import objection, parse
from guideway.interpreter.quotas import DAY
from guideway.interpreter.repeats import LIFETIME as REMEMBERED
from guideway.interpreter.risk import Impact, Quota, Reversibility, Risk, Tier
from guideway.interpreter.weighing import DEFAULT_RULES, Bounds
from guideway.interpreter.windows import Freeze, Window
from guideway.server.change_windows import read_window
from guideway.server.section import FilePath, Section, Text, Url

_AnHour = Annotated[int, Field(ge=0, le=10_000)]
_ADay = Annotated[int, Field(ge=0, le=100_000)]
_AtOnce = Annotated[int, Field(ge=1, le=10_000)]


def _window(text: str) -> str:
    read_window(text)
    return text


def _some(values: tuple[str, ...]) -> tuple[str, ...]:
    """Check that a list has something in it; the elements' own mistakes are told first."""
    if not values:
        raise ValueError("must not be empty")
    return values


_Names = Annotated[tuple[Text, ...], AfterValidator(_some), Strict(False)]


def _instant(value: Any) -> datetime:
    """Check a time that means one instant, whoever reads it: TOML has dates, and times without an offset, too."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    what = "needs its offset" if isinstance(value, date) else "must be a date with time and offset"
    raise ValueError(f"{what}, such as 2026-12-24T00:00:00+01:00, without quotes")


_Instant = Annotated[datetime, BeforeValidator(_instant), PlainSerializer(datetime.isoformat)]


class RiskSection(Section):
    """The keys of ``[services.NAME]`` that say how much a person has to know of a restart, how often and when it is.

    What of a quota is not given is the default of the quadrant.
    """

    impact: Annotated[Impact, Strict(False)] | None = None
    reversibility: Annotated[Reversibility, Strict(False)] | None = None
    tier: Annotated[int, Field(ge=0, le=3)] | None = None
    critical: bool = False
    restarts_per_hour: _AnHour | None = None
    restarts_per_day: _ADay | None = None
    cooldown_seconds: Annotated[float, Field(ge=0, le=DAY, allow_inf_nan=False)] | None = None
    windows: Annotated[
        tuple[Annotated[str, AfterValidator(_window)], ...], AfterValidator(_some), Field(max_length=100), Strict(False)
    ] = ()
    group: str | None = None

    def risk(self) -> Risk:
        """Return what is stated of mutations."""
        tier = None if self.tier is None else Tier(self.tier)
        stated = Risk(self.impact, self.reversibility, tier, self.critical)
        return _with_quota(stated, self.restarts_per_hour, self.restarts_per_day, self.cooldown_seconds)

    def change_windows(self) -> tuple[Window, ...]:
        """Return when mutations are allowed; none is always."""
        return tuple(read_window(text) for text in self.windows)


@lru_cache(maxsize=256)  # of many services the most state the same
def _with_quota(stated: Risk, per_hour: int | None, per_day: int | None, cooldown: float | None) -> Risk:
    default = stated.limits
    quota = Quota(
        default.per_hour if per_hour is None else per_hour,
        default.per_day if per_day is None else per_day,
        default.cooldown if cooldown is None else cooldown,
    )
    return replace(stated, quota=quota)


class BoundsSection(Section):
    """How many restarts all of somebody's programs may make: ``[quotas]``, and the same keys of ``[tenants.NAME]``."""

    restarts_per_hour: _AnHour | None = None
    restarts_per_day: _ADay | None = None
    restarts_at_once: _AtOnce | None = None

    def bounds(self) -> Bounds:
        """Return the bounds."""
        return Bounds(Quota(self.restarts_per_hour, self.restarts_per_day), self.restarts_at_once)


class GroupSection(Section):
    """``[groups.NAME]``: how many of the services that name the group may be restarted at once.

    ``share`` is a part of them, and always allows one.
    """

    at_once: _AtOnce | None = None
    share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at_once is None) == (self.share is None):
            raise ValueError("needs one of `at_once` and `share`")
        return self

    def bound(self, members: int) -> int:
        """Return how many of so many services may be restarted at once."""
        return self.at_once if self.at_once is not None else max(1, int((self.share or 0) * members + 1e-9))


class FreezeSection(Section):
    """``[freezes.NAME]``: no mutation of some services from one instant until before another."""

    begins: Annotated[_Instant, Field(alias="from")]
    ends: Annotated[_Instant, Field(alias="until")]
    services: _Names | None = None
    groups: _Names | None = None
    all: bool = False
    reason: Text

    @model_validator(mode="after")
    def _is_a_time_of_something(self) -> Self:
        if self.ends <= self.begins:
            raise ValueError("ends before it begins: `until` must be after `from`")
        if self.all == (self.services is not None or self.groups is not None):
            raise ValueError("needs `services` or `groups` or both, or else `all = true`")
        return self

    def freeze(self, name: str) -> Freeze:
        """Return the freeze."""
        return Freeze(name, self.begins, self.ends, self.reason)


def _reachable(url: str) -> str:
    address = parse(urlsplit(url).hostname or "")
    why = objection(address) if address is not None else None
    if why is not None:
        raise ValueError(f"cannot be there: the address {why.partition(';')[0]}")
    return url


Occasions = Literal["pending", "decided", "expired", "review", "break_glass"]


class WebhookSection(Section):
    """``[approvals.webhooks.NAME]``: who is told of tickets and runs. The secret signs what is posted.

    The URL stands in a file or in an environment variable where it is a secret itself, as Slack's are.
    """

    url: Annotated[Url, AfterValidator(_reachable)] | None = None
    url_file: FilePath | None = None
    url_env: Text | None = None
    ca_file: FilePath | None = None
    secret_file: FilePath | None = None
    secret_env: Text | None = None
    format: Literal["json", "slack"] = "json"
    events: Annotated[frozenset[Occasions], Field(min_length=1), Strict(False)] = frozenset(
        ("pending", "decided", "expired", "review", "break_glass")
    )

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        given = [key for key in ("url", "url_file", "url_env") if getattr(self, key) is not None]
        if len(given) != 1:
            words = f", and has {' and '.join(f'`{key}`' for key in given)}" if given else ""
            raise ValueError(f"needs one of `url`, `url_file` and `url_env`{words}")
        return self

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if self.secret_file is not None and self.secret_env is not None:
            raise ValueError("needs one of `secret_file` and `secret_env`, and has both")
        if self.format == "json" and self.secret_file is None and self.secret_env is None:
            raise ValueError("needs `secret_file` or `secret_env`: whoever is told must see that it is from here")
        return self


class ApprovalsSection(Section):
    """``[approvals]``: how a person is asked.

    ``wait_seconds`` is how long a restart waits for another one that is in its way; 0 refuses it at once. ``form`` are
    the clients that may ask the person themselves. What a client keeps of a question is sealed with the keys that
    ``state_keys_file`` or ``state_keys_env`` names, all replicas with the same. ``issuer`` is where people sign in to
    the approval page, and ``client_id`` and the secret are the page's own there.
    """

    lifetime_seconds: Annotated[float, Field(ge=10, le=86_400, allow_inf_nan=False)] = LIFETIME
    own_requests: bool = False
    wait_seconds: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = DEFAULT_RULES.wait
    most_open: Annotated[int, Field(ge=1, le=1_000)] = DEFAULT_RULES.most_open
    form: Annotated[frozenset[Text], Strict(False)] = frozenset()
    state_keys_file: FilePath | None = None
    state_keys_env: Text | None = None
    issuer: Text | None = None
    client_id: Text | None = None
    client_secret_file: FilePath | None = None
    client_secret_env: Text | None = None
    webhooks: dict[str, WebhookSection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_way_to_sign_in(self) -> Self:
        secrets = (self.client_secret_file is not None) + (self.client_secret_env is not None)
        if (self.issuer is None) != (self.client_id is None) or (secrets and self.client_id is None):
            raise ValueError("needs `issuer` and `client_id`, or none of them: with both, people sign in to the page")
        if secrets > 1:
            raise ValueError("needs one of `client_secret_file` and `client_secret_env`, and has both")
        return self

    @model_validator(mode="after")
    def _one_place_of_keys(self) -> Self:
        if self.state_keys_file is not None and self.state_keys_env is not None:
            raise ValueError("needs one of `state_keys_file` and `state_keys_env`, and has both")
        return self


class StoreSection(Section):
    """``[store]``: where tickets, quotas and locks are kept. One folder for one machine, PostgreSQL for replicas.

    The URL has a password in it: it stands in a file or in an environment variable. ``idempotency_hours`` is for how
    long a call's idempotency key is remembered.
    """

    folder: FilePath | None = None
    url_file: FilePath | None = None
    url_env: Text | None = None
    idempotency_hours: Annotated[float, Field(gt=0, le=720, allow_inf_nan=False)] = REMEMBERED / 3600

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [key for key in ("folder", "url_file", "url_env") if getattr(self, key) is not None]
        if len(given) > 1:
            words = " and ".join(f"`{key}`" for key in given)
            raise ValueError(f"needs one of `folder`, `url_file` and `url_env`, and has {words}")
        return self
