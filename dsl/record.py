"""Frozen records for this package: a tuple with named, typed fields.

Standard dataclasses would say the same, but importing ``dataclasses`` and building twenty frozen classes
costs more than the whole of ``guideway check`` may, and creating a frozen instance costs four times as much
as creating a tuple (docs/decisions/0002-records-are-tuples.md has the figures). Type checkers see a frozen
dataclass, by PEP 681.
"""

from operator import itemgetter
from typing import Any, ClassVar, Self, dataclass_transform


class _Slotted(type):
    """Gives each class of records empty slots, so that an instance is its fields and can carry nothing else."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> "_Slotted":
        return super().__new__(cls, name, bases, {"__slots__": (), **namespace})


@dataclass_transform(frozen_default=True)
class Record(tuple[Any, ...], metaclass=_Slotted):
    """A frozen record: its fields are its annotations, in order, those of its bases first.

    Two records are equal when they are of one class and their fields are equal. Fields without a default
    come first, as in a function's signature.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    __match_args__: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = [
            name
            for name, annotation in cls.__annotations__.items()  # of this class alone, since Python 3.10
            if not str(annotation).startswith(("ClassVar", "typing.ClassVar"))
        ]
        cls._defaults = cls._defaults | {name: cls.__dict__[name] for name in own if name in cls.__dict__}
        for index, name in enumerate(own, start=len(cls._fields)):
            setattr(cls, name, property(itemgetter(index)))
        cls._fields += tuple(own)
        cls.__match_args__ = cls._fields  # type: ignore[misc]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        fields = cls._fields
        if len(values) > len(fields):
            raise TypeError(f"{cls.__name__} takes {len(fields)} fields, not {len(values)}")
        rest = fields[len(values) :]
        if rest:
            defaults = cls._defaults
            try:
                values += tuple(named.pop(name) if name in named else defaults[name] for name in rest)
            except KeyError as missing:
                raise TypeError(f"{cls.__name__} needs the field {missing}") from None
        if named:
            raise TypeError(f"{cls.__name__} cannot take {', '.join(sorted(named))}")
        return tuple.__new__(cls, values)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with the named fields changed."""
        return type(self)(**{**dict(zip(self._fields, self, strict=True)), **changes})

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), tuple(self)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self)
