"""Codes and refresh tokens: good once, for who was given them, and for what was granted."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx2
import pytest

from guideway.server.development_issuer import store
from guideway.server.development_issuer.client import Client as KeptClient
from guideway.server.development_issuer.client import ClientMetadata
from guideway.server.development_issuer.store import GRANT_SECONDS, Store, new_grant
from tests.server.development_issuer.world import PEOPLE, READ, RESOURCE, WRITE, Client

pytestmark = pytest.mark.anyio


def error(answer: httpx2.Response) -> str:
    """Return the error of a refusal, which is answered as RFC 6749, section 5.2, says."""
    assert answer.status_code == 400, answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    return str(answer.json()["error"])


async def test_a_code_is_good_once_and_a_replay_ends_what_it_gave(client: Client) -> None:
    """A code was read from a browser's history, and is shown after its client was there."""
    code = await client.code()
    first = await client.redeem(code)
    assert first.status_code == 200
    assert error(await client.redeem(code)) == "invalid_grant"
    assert error(await client.refresh(first.json()["refresh_token"])) == "invalid_grant"


async def test_of_two_redemptions_at_one_instant_one_is_let_through(client: Client) -> None:
    """A thief and the client show the same code at the same moment."""
    code = await client.code()
    answers: list[httpx2.Response] = []

    async def redeem() -> None:
        answers.append(await client.redeem(code))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(redeem)
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7
    tokens = next(answer.json() for answer in answers if answer.status_code == 200)
    assert error(await client.refresh(tokens["refresh_token"])) == "invalid_grant"


async def test_of_two_refreshes_at_one_instant_one_is_let_through(client: Client) -> None:
    token = (await client.tokens())["refresh_token"]
    answers: list[httpx2.Response] = []

    async def refresh() -> None:
        answers.append(await client.refresh(token))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(refresh)
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 7


async def test_a_refresh_token_is_good_once_and_its_reuse_ends_the_family(client: Client) -> None:
    """A refresh token was stolen: whichever of the two uses it second gives the theft away."""
    first = (await client.tokens())["refresh_token"]
    second = (await client.refresh(first)).json()["refresh_token"]
    third = (await client.refresh(second)).json()["refresh_token"]
    assert len({first, second, third}) == 3
    assert error(await client.refresh(first)) == "invalid_grant"
    assert error(await client.refresh(third)) == "invalid_grant"


async def test_a_refresh_may_narrow_and_what_was_granted_stays(client: Client) -> None:
    token = (await client.tokens())["refresh_token"]
    narrow = (await client.refresh(token, scope=READ)).json()
    assert narrow["scope"] == READ
    assert (await client.refresh(narrow["refresh_token"])).json()["scope"] == f"{READ} {WRITE}"


@pytest.mark.parametrize("scope", [f"{READ} {WRITE}", WRITE, f"{READ} offline_access", f"{READ}\t{WRITE}", f" {WRITE}"])
async def test_a_refresh_never_widens(client: Client, scope: str) -> None:
    token = (await client.tokens(scope=READ))["refresh_token"]
    assert error(await client.refresh(token, scope=scope)) in ("invalid_scope", "invalid_request")
    assert (await client.refresh(token)).json()["scope"] == READ  # and the refused request used nothing up


async def test_a_code_is_for_the_client_that_it_was_given_to(client: Client) -> None:
    """Another client was sent the code, by a page that mixed the two up."""
    code = await client.code()
    thief = Client(client.issuer, client.http)
    await thief.register()
    thief.verifier = client.verifier
    assert error(await thief.redeem(code)) == "invalid_grant"
    assert (await client.redeem(code)).status_code == 200


async def test_a_refresh_token_is_for_the_client_that_it_was_given_to(client: Client) -> None:
    token = (await client.tokens())["refresh_token"]
    thief = Client(client.issuer, client.http)
    await thief.register()
    assert error(await thief.refresh(token)) == "invalid_grant"
    assert (await client.refresh(token)).status_code == 200


WRONG_VERIFIER = "w" * 43


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"code_verifier": None}, "invalid_request"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"code_verifier": WRONG_VERIFIER}, "invalid_grant"),
        ({"code_verifier": "short"}, "invalid_request"),
        ({"redirect_uri": None}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:3001/callback"}, "invalid_grant"),
        ({"resource": "http://127.0.0.1:9999/mcp"}, "invalid_target"),
        ({"resource": f"{RESOURCE}/"}, "invalid_target"),
        ({"client_id": None}, "invalid_client"),
        ({"client_id": "nobody"}, "invalid_client"),
        ({"client_secret": "guess"}, "invalid_client"),
        ({"code": None}, "invalid_request"),
        ({"code": "guess"}, "invalid_grant"),
        ({"code": "' OR 1=1 --"}, "invalid_grant"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": None}, "unsupported_grant_type"),
    ],
)
async def test_a_code_is_not_given_for_less_than_everything(
    client: Client, changed: dict[str, str | None], expected: str
) -> None:
    """A code leaked, and whoever has it tries it with what they can think of."""
    code = await client.code()
    sent = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": "http://127.0.0.1:3000/callback",
        "code_verifier": client.verifier,
        "resource": RESOURCE,
        **changed,
    }
    assert error(await client.exchange(**sent)) == expected  # type: ignore[arg-type]  # None leaves one out
    assert (await client.redeem(code)).status_code == 200


async def test_the_resource_may_be_left_out_where_the_code_has_it(client: Client) -> None:
    tokens = await client.redeem(await client.code(), resource=None)
    assert tokens.status_code == 200
    assert (await client.refresh(tokens.json()["refresh_token"], resource="https://other.example/mcp")).json()[
        "error"
    ] == "invalid_target"


async def test_a_verifier_is_compared_by_its_hash_alone(client: Client) -> None:
    """A downgrade: the challenge itself is shown as the verifier, as the method `plain` would have it."""
    code = await client.code()
    challenge = httpx2.URL(client.url()).params["code_challenge"]
    assert error(await client.redeem(code, code_verifier=challenge)) == "invalid_grant"


@pytest.mark.parametrize(
    "body",
    [
        b"grant_type=authorization_code&grant_type=refresh_token",
        b"grant_type=authorization_code&code=a&code=b&client_id=x",
        b"grant_type=authorization_code&client_id=%00",
        b"grant_type=authorization_code&client_id=%ff%fe",
        b"grant_type=authorization_code&client_id=a%0d%0aX-Header:%20b",
        b"\xff\xfe",
        b"a=1&" * 60,
        b"code=" + b"a" * 20_000,
    ],
)
async def test_a_form_that_can_be_read_in_two_ways_is_refused(client: Client, body: bytes) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await client.http.post(f"{client.issuer}/token", content=body, headers=headers)
    assert error(answer) == "invalid_request"


async def test_parameters_in_the_address_of_the_token_endpoint_do_not_count(client: Client) -> None:
    code = await client.code()
    answer = await client.http.post(
        f"{client.issuer}/token?code={code}&client_id={client.client_id}",
        data={"grant_type": "authorization_code", "code_verifier": client.verifier},
    )
    assert error(answer) == "invalid_client"


async def test_a_client_without_the_grant_type_gets_no_refresh_token(client: Client) -> None:
    other = Client(client.issuer, client.http)
    await other.register(grant_types=["authorization_code"])
    assert "refresh_token" not in await other.tokens()
    token = (await client.tokens())["refresh_token"]
    assert error(await other.refresh(token)) == "unauthorized_client"


async def test_a_revoked_refresh_token_ends_its_family(client: Client) -> None:
    token = (await client.tokens())["refresh_token"]
    form = {"token": token, "client_id": client.client_id, "token_type_hint": "refresh_token"}
    assert (await client.http.post(f"{client.issuer}/revoke", data=form)).status_code == 200
    assert error(await client.refresh(token)) == "invalid_grant"
    assert (await client.http.post(f"{client.issuer}/revoke", data=form)).status_code == 200  # RFC 7009, section 2.2


async def test_only_its_client_can_revoke_a_token(client: Client) -> None:
    token = (await client.tokens())["refresh_token"]
    other = Client(client.issuer, client.http)
    await other.register()
    form = {"token": token, "client_id": other.client_id}
    assert error(await client.http.post(f"{client.issuer}/revoke", data=form)) == "invalid_grant"
    assert error(await client.http.post(f"{client.issuer}/revoke", data={"token": token})) == "invalid_client"
    assert (await client.refresh(token)).status_code == 200


async def test_that_access_tokens_are_not_revoked_is_said(client: Client) -> None:
    form = {"token": (await client.tokens())["access_token"], "client_id": client.client_id}
    assert error(await client.http.post(f"{client.issuer}/revoke", data=form)) == "unsupported_token_type"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


class TestStore:
    """What runs out when, and how much is kept."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def kept(self, tmp_path: Path, clock: Clock) -> Iterator[Store]:
        made = Store(tmp_path / "state.sqlite", clock)
        made.keep_client(client_named("c"))
        yield made
        made.close()

    def test_a_code_runs_out_after_a_minute(self, kept: Store, clock: Clock) -> None:
        allow(kept)
        clock.time += 59.9
        assert kept.code("code") is not None
        clock.time += 0.1
        assert kept.code("code") is None

    def test_that_a_code_was_used_is_known_as_long_as_its_grant_lives(self, kept: Store, clock: Clock) -> None:
        allow(kept)
        code = kept.code("code")
        assert code is not None
        assert kept.redeem(code, "token")
        clock.time += GRANT_SECONDS - 1
        again = kept.code("code")
        assert again is not None
        assert again.used
        clock.time += 1
        assert kept.code("code") is None
        assert kept.refresh_token("token") is None

    def test_a_claim_is_let_through_once_whatever_was_read_before(self, kept: Store) -> None:
        allow(kept)
        first, second = kept.code("code"), kept.code("code")
        assert first is not None
        assert second is not None
        assert (kept.redeem(first, "a"), kept.redeem(second, "b")) == (True, False)
        assert kept.refresh_token("b") is None
        one, two = kept.refresh_token("a"), kept.refresh_token("a")
        assert one is not None
        assert two is not None
        assert (kept.rotate(one, "c"), kept.rotate(two, "d")) == (True, False)
        assert kept.refresh_token("d") is None

    def test_clients_are_bounded_and_those_with_a_grant_stay(
        self, kept: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store, "MOST_CLIENTS", 5)
        allow(kept)
        for number in range(20):
            clock.time += 1
            kept.keep_client(client_named(str(number)))
        assert kept.client("c") is not None
        assert [number for number in range(20) if kept.client(str(number))] == [16, 17, 18, 19]

    def test_grants_that_nobody_fetched_are_forgotten(self, kept: Store, clock: Clock) -> None:
        allow(kept)
        clock.time += 61
        allow(kept, "another")  # sweeps
        clock.time -= 61
        assert kept.code("code") is None


def client_named(name: str) -> KeptClient:
    return KeptClient(name, ClientMetadata(redirect_uris=["https://client.example/cb"]))


def allow(kept: Store, code: str = "code") -> None:
    grant = new_grant("c", "alice", PEOPLE["alice"], RESOURCE)
    kept.allow(code, grant, redirect_uri="https://client.example/cb", challenge="x" * 43)
