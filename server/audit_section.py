"""What the table ``[audit]`` may hold: who signs the trail, how long it is kept, and what of it is private."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, Strict, model_validator

from guideway.interpreter.audit.privacy import ALSO, Matter
from guideway.server.section import FilePath, Section, Text


def _pattern(text: str) -> str:
    try:
        matches_nothing = re.compile(text).search("") is not None
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if matches_nothing:
        raise ValueError("matches the empty text, and so would stand between all letters")
    return text


_Pattern = Annotated[Text, AfterValidator(_pattern)]
_Matter = Annotated[Matter, Strict(False)]


class AuditSection(Section):
    """``[audit]``: the audit trail. Without a key it is not signed, and whoever can write the store can write it anew.

    ``public_keys`` are files of keys that are believed too: earlier ones, and other replicas'. What only reads gives
    its result without a record only with ``reads_without_trail``. ``private`` names what no record has,
    ``private_patterns`` what is taken out of every text; where there is a key for that people are told by pseudonyms.
    """

    key_file: FilePath | None = None
    key_env: Text | None = None
    public_keys: Annotated[tuple[FilePath, ...], Strict(False)] = ()
    checkpoint_file: FilePath | None = None
    checkpoint_records: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    checkpoint_seconds: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = 3_600.0
    keep_days: Annotated[float, Field(ge=1, le=36_500, allow_inf_nan=False)] | None = None
    reads_without_trail: bool = False
    private: Annotated[frozenset[_Matter], Strict(False)] = frozenset()
    private_patterns: Annotated[tuple[_Pattern, ...], Field(max_length=100), Strict(False)] = ()
    private_key_file: FilePath | None = None
    private_key_env: Text | None = None

    @property
    def has_key(self) -> bool:
        """Whether the trail is signed."""
        return self.key_file is not None or self.key_env is not None

    @property
    def has_private_key(self) -> bool:
        """Whether private subjects get pseudonyms."""
        return self.private_key_file is not None or self.private_key_env is not None

    @model_validator(mode="after")
    def _keys_have_one_place(self) -> Self:
        for file, variable in (("key_file", "key_env"), ("private_key_file", "private_key_env")):
            if getattr(self, file) is not None and getattr(self, variable) is not None:
                raise ValueError(f"needs one of `{file}` and `{variable}`, and has both")
        if not self.has_key:
            for key, why in (
                ("checkpoint_file", "a checkpoint is signed"),
                ("keep_days", "what is kept is proven by it"),
            ):
                if getattr(self, key) is not None:
                    raise ValueError(f"needs `key_file` or `key_env` for `{key}`: {why}")
        return self

    @model_validator(mode="after")
    def _nothing_private_is_left(self) -> Self:
        for matter in self.private:
            left = sorted(ALSO.get(matter, frozenset()) - self.private)
            if left:
                words = " and ".join(f"`{each}`" for each in left)
                raise ValueError(f"needs {words} in `private` too: what is `{matter}` stands there as well")
        if self.has_private_key and Matter.SUBJECT not in self.private:
            raise ValueError("needs `subject` in `private` for a private key: it makes pseudonyms of subjects")
        return self
