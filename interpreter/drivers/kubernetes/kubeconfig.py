"""How a cluster is reached and as whom: what a kubeconfig file says, or the service account of a pod.

Owns which of a kubeconfig's ways are followed. What is not followed is refused and never passed over: a file that says
to act as somebody with fewer rights must not be read as if it did not. Runs no program.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import yaml
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from guideway.interpreter.drivers.base import Fault
from guideway.interpreter.results import Reason

_LARGEST: Final = 1 << 20

_NOT_OF_A_USER: Final = {
    "exec": "it runs a program for its credentials (`exec`): use a token, `tokenFile` or a client certificate",
    "auth-provider": "it has an `auth-provider`: use a token, `tokenFile` or a client certificate",
    "as": "it acts as somebody else (`as`): use that user's own credentials",
    "as-uid": "it acts as somebody else (`as-uid`): use that user's own credentials",
    "as-groups": "it acts as somebody else (`as-groups`): use that user's own credentials",
    "as-user-extra": "it acts as somebody else (`as-user-extra`): use that user's own credentials",
}
_NOT_OF_A_CLUSTER: Final = {
    "insecure-skip-tls-verify": "it would give its credentials to any server (`insecure-skip-tls-verify`): "
    "name the authority in `certificate-authority`",
    "proxy-url": "it goes through a proxy (`proxy-url`), which is not supported",
    "tls-server-name": "it expects another name in the certificate (`tls-server-name`), which is not supported",
}


def read(file: Path | None, context: str | None) -> SingleConfig:
    """Return what is known of a cluster, from a kubeconfig or, without one, from the pod that this runs in.

    Raises ``Fault``, whose message never holds what the file does.
    """
    if file is None:
        return _of_this_pod()
    try:
        return _of_file(file, context)
    except Fault as fault:
        fault.mend = f"`kubeconfig` is `{file}`"
        raise


def _of_file(file: Path, context: str | None) -> SingleConfig:
    said = _parsed(file)
    name = context if context is not None else said.get("current-context")
    if not isinstance(name, str) or not name:
        raise _unusable("it has no current context: give `context`")
    chosen = _named(said, "contexts", "context", name, "the context")
    cluster = _named(said, "clusters", "cluster", chosen.get("cluster"), "its context's cluster")
    user = _named(said, "users", "user", chosen["user"], "its context's user") if chosen.get("user") else {}
    _refuse(cluster, _NOT_OF_A_CLUSTER)
    _refuse(user, _NOT_OF_A_USER)
    if not _is_safe(cluster.get("server")):
        raise _unusable("its server's address must begin with `https://`")
    try:
        made = KubeConfig.from_dict(
            {
                "current-context": name,
                "contexts": [{"name": name, "context": {**chosen, "user": name, "cluster": name}}],
                "clusters": [{"name": name, "cluster": cluster}],
                "users": [{"name": name, "user": user}],
            },
            fname=file,
        ).get()
    except (ConfigError, msgspec.ValidationError):
        raise _unusable("its context, cluster or user has a key of the wrong type") from None
    if made is None or made.user is None:
        raise _unusable("it has no user")
    if made.user.token_file is not None:
        made.user.token_file = str(made.abs_file(made.user.token_file))
    return made


def _of_this_pod() -> SingleConfig:
    try:
        made = KubeConfig.from_service_account().get()
    except (ConfigError, KeyError, OSError):
        made = None
    if made is None:
        raise Fault(Reason.UNREACHABLE, "this process is in no pod with a service account: give `kubeconfig`")
    # The file is read when it is asked for, and again when its token has run out.
    return made._replace(user=User(token_file=made.user.token_file if made.user else None))


def _parsed(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
    except PermissionError:
        raise Fault(Reason.NO_PERMISSION, "this process may not read the kubeconfig") from None
    except FileNotFoundError:
        raise Fault(Reason.UNREACHABLE, "the kubeconfig does not exist") from None
    except OSError:
        raise _unusable("it cannot be read") from None
    if len(content) > _LARGEST:
        raise _unusable("it is longer than 1 MiB")
    try:
        said = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError):
        raise _unusable("it is not YAML") from None
    if not isinstance(said, dict):
        raise _unusable("it is not a mapping")
    return said


def _named(said: Mapping[str, Any], group: str, kind: str, name: object, what: str) -> dict[str, Any]:
    """Return the one of a group's entries that has a name. Raises ``Fault``."""
    entries = said.get(group)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    raise _unusable(f"{what} is not in it")


def _refuse(entry: Mapping[str, Any], ways: Mapping[str, str]) -> None:
    for key, why in ways.items():
        if entry.get(key):
            raise _unusable(why)


def _is_safe(server: object) -> bool:
    """Whether nobody on the way can read what is sent there: over TLS, or to this machine itself."""
    if not isinstance(server, str):
        return False
    try:
        address = urlsplit(server)
        host = address.hostname or ""
    except ValueError:
        return False
    if address.scheme != "http":
        return address.scheme == "https" and bool(host)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _unusable(why: str) -> Fault:
    return Fault(Reason.UNREACHABLE, f"the kubeconfig cannot be used: {why}")
