"""Services that are workloads of a Kubernetes cluster; here what the configuration says of them.

The client library is loaded when the first of them is made: a configuration without one does not need it.
"""

import os
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, Strict, model_validator

from guideway.interpreter.drivers.base import DriverOptions, FromName, ServiceDriver, key_of
from guideway.interpreter.drivers.kubernetes.selector import read_selector
from guideway.interpreter.extras import install

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)


def _name(text: str) -> str:
    if len(text) > 253 or not _NAME.fullmatch(text):
        raise ValueError("must be the name of an object of Kubernetes: small letters, digits, `-` and `.`")
    return text


def _namespace(text: str) -> str:
    if len(text) > 63 or not _NAMESPACE.fullmatch(text):
        raise ValueError("must be the name of a namespace: small letters, digits and `-`, at most 63")
    return text


def _selector(text: str) -> str:
    read_selector(text)
    return text


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("must be an absolute path")
    return path


@cache
def _library_is_there() -> bool:
    return find_spec("lightkube") is not None


class KubernetesOptions(DriverOptions):
    """A deployment, stateful set or daemon set.

    ``kubeconfig`` is the file that says how to reach the cluster and as whom, ``context`` which part of it, its current
    one by default; without a file, this process runs in a pod of the cluster, and its service account is used. With a
    ``selector``, only one that carries those labels is meant.
    """

    shown = ("kind", "namespace", "name")

    kind: Literal["deployment", "statefulset", "daemonset"] = "deployment"
    name: Annotated[str, FromName(), AfterValidator(_name)]
    namespace: Annotated[str, AfterValidator(_namespace)]
    selector: Annotated[str, AfterValidator(_selector)] | None = None
    kubeconfig: Annotated[Path, Strict(False), AfterValidator(_absolute)] | None = None
    context: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _has_its_library(self) -> Self:
        if not _library_is_there():
            raise ValueError(f"needs the package `lightkube`: {install('kubernetes')}")
        return self

    @model_validator(mode="after")
    def _has_a_file_for_its_context(self) -> Self:
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("`context` is one of a `kubeconfig`: give that too")
        return self

    def unit_key(self, machine: str | None = None) -> str:  # noqa: ARG002
        """Return the workload, with its cluster: the file and the part of it that say how that is reached."""
        cluster = os.path.realpath(self.kubeconfig) if self.kubeconfig else ""
        return key_of("kubernetes", cluster, self.context or "", self.namespace, self.kind, self.name)

    def build(self) -> ServiceDriver:
        """Make the driver."""
        from guideway.interpreter.drivers.kubernetes.cluster import cluster_of  # noqa: PLC0415  # 0.3 s, for who needs it
        from guideway.interpreter.drivers.kubernetes.driver import KubernetesDriver  # noqa: PLC0415

        cluster = cluster_of(self.kubeconfig, self.context)
        selector = None if self.selector is None else read_selector(self.selector)
        return KubernetesDriver(self.kind, self.name, self.namespace, cluster, selector)
