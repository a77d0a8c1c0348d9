"""Backends of other packages, by the entry points that these declare. Nothing is looked for until a name asks for it.

Owns how such a backend is found and what is wrong where it cannot be used. A package of that kind is trusted as the
configuration is: whoever installed it lets it run in this process.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from guideway.interpreter.drivers.base import Options

_Kind = TypeVar("_Kind", bound=Options)


class UnusableError(Exception):
    """An installed backend cannot be used. The message says which and why: lower case, no full stop."""


class Installed(Mapping[str, type[_Kind]]):
    """Options of backends by name: our own, which are what it lists, and those that entry points of a group name.

    An own name cannot be taken by another package. Looking a name up raises ``KeyError``, or ``UnusableError``.
    """

    def __init__(self, own: Mapping[str, type[_Kind]], group: str, kind: type[_Kind]) -> None:
        self._own = own
        self._group = group
        self._kind = kind

    def __getitem__(self, name: str) -> type[_Kind]:
        if name in self._own:
            return self._own[name]
        return self._load(self._found(name))

    def __contains__(self, name: object) -> bool:
        return name in self._own or (isinstance(name, str) and bool(entry_points(group=self._group, name=name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def _found(self, name: str) -> EntryPoint:
        found = list(entry_points(group=self._group, name=name))
        if not found:
            raise KeyError(name)
        if len({one.value for one in found}) > 1:
            owners = ", ".join(sorted(f"`{one.dist.name}`" for one in found if one.dist))
            raise UnusableError(f"is claimed by several packages, {owners}: uninstall all but one")
        return found[0]

    def _load(self, point: EntryPoint) -> type[_Kind]:
        owner = f"`{point.dist.name}`" if point.dist else "a package"
        try:
            loaded = point.load()
        except Exception as error:  # whatever the other package's code raises
            raise UnusableError(
                f"is of {owner}, which cannot be loaded: {type(error).__name__} from `{point.value}`"
            ) from error
        if not (isinstance(loaded, type) and issubclass(loaded, self._kind)):
            raise UnusableError(f"is of {owner}, whose `{point.value}` is not a {self._kind.__name__}")
        return loaded
