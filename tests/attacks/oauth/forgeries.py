"""The catalogue's shape, and what its tokens are made from."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.attacks.oauth.forge import Key, Mint, Part, ec_key


@dataclass(frozen=True)
class Ground:
    """Whom the server trusts, as an attacker sees it: the names, and keys that the attacker may or may not have."""

    corp: Mint
    partner: Mint
    stranger: Mint
    resource: str

    @property
    def corp_ec(self) -> Key:
        """Corp's second key, on a curve."""
        return ec_key("corp-ec")


@dataclass(frozen=True)
class Forgery:
    """A token, who would send it and why, and the words it is refused with.

    ``status`` 200 marks one that must pass: it stands beside its neighbours so that they cannot be refused by chance.
    """

    name: str
    story: str
    make: Callable[[Ground], str]
    why: str = ""
    status: int = 401

    def __str__(self) -> str:
        return self.name


def saying(name: str, story: str, why: str = "", *, status: int = 401, **claims: object) -> Forgery:
    """Return a token of corp, signed well, with some claims changed."""
    return Forgery(name, story, lambda ground: ground.corp.saying(**claims), why, status)


def headed(name: str, story: str, why: str = "", *, status: int = 401, **members: object) -> Forgery:
    """Return a token of corp, signed by its key, with some header members changed."""
    return Forgery(name, story, lambda ground: ground.corp.headed(**members), why, status)


def written(name: str, story: str, why: str, text: Callable[[Ground], Part], *, status: int = 401) -> Forgery:
    """Return a token of corp, signed well, whose payload is a text of its own."""
    return Forgery(name, story, lambda ground: ground.corp.token(payload=text(ground)), why, status)
