"""The paths in a configuration: which values are some, and that they are relative to the file, not to who reads it."""

import os
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from guideway.interpreter.drivers.base import SocketPath
from guideway.interpreter.drivers.ways import SocketOptions


def absolute(folder: str, kind: Any, value: Any) -> Any:
    """Return a value with its paths made absolute: they are relative to the file, not to who reads it.

    ``kind`` is the annotation that the value is to fit.
    """
    if isinstance(value, str):
        return os.path.join(folder, value) if _mentions_path(kind) else value
    if isinstance(value, list) and _mentions_path(kind):
        return [absolute(folder, kind, each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        kinds = _with_paths(kind)
        if issubclass(kind, SocketOptions) and "ssh" in value:  # a socket on another machine is not beside the file
            kinds = {key: part for key, part in kinds.items() if SocketPath not in typing.get_args(part)}
        return value | {key: absolute(folder, kinds[key], value[key]) for key in kinds.keys() & value.keys()}
    arguments = [part for part in typing.get_args(kind) if part is not type(None)]
    if typing.get_origin(kind) is dict:
        return {key: absolute(folder, arguments[-1], inner) for key, inner in value.items()}
    return absolute(folder, arguments[0], value) if arguments else value


@cache  # asked of every entry of an inventory
def _with_paths(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the annotations of the fields that hold a path, or a table with one somewhere in it."""
    kinds = {key: field.annotation for key, field in model.model_fields.items()}
    return {key: kind for key, kind in kinds.items() if _leads_to_path(kind)}


def _leads_to_path(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return bool(_with_paths(annotation))
    return annotation is Path or any(_leads_to_path(part) for part in typing.get_args(annotation))


@cache
def _mentions_path(annotation: Any) -> bool:
    return annotation is Path or any(_mentions_path(part) for part in typing.get_args(annotation))
