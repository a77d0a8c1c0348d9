"""No mistake in the configuration is told in the words of the library that finds it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.probes import PROBES
from guideway.server import config, sections
from guideway.server.config_errors import ConfigError

TABLES: dict[str, type[BaseModel]] = {
    "[callers.me]\n": sections.CallerSection,
    "[server]\n": sections.ServerSection,
    "[server.tls]\n": sections.TlsSection,
    "[issuers.corp]\n": sections.IssuerSection,
    "[issuers.corp.introspection]\n": sections.IntrospectionSection,
    "[development_issuer]\n": sections.DevelopmentIssuerSection,
    "[tenants.acme]\n": sections.TenantSection,
    "[limits]\n": sections.LimitsSection,
    "[deadlines]\n": sections.DeadlinesSection,
    "[ssh.bastion]\n": SshOptions,
    **{f'[hosts.one]\nprobe = "{kind}"\n': options for kind, options in PROBES.items()},
    **{f'[services.one]\ndriver = "{kind}"\n': options for kind, options in DRIVERS.items()},
}
VALUES = ("5", "-1", "1.5", "inf", "true", '""', '"x"', "[]", "[3]", '["x"]', "{}", "{ x = 3 }", "1979-05-27")
WORDS = r"\binput\b|\bshould\b|\bvalid\b|<class|pydantic|\btuple\b|\binstance\b|unable to|\bNone\b"
THEIRS = re.compile(WORDS, re.IGNORECASE)


def mistakes(table: str, model: type[BaseModel]) -> Iterator[str]:
    for key, field in model.model_fields.items():
        for value in VALUES:
            yield f"{table}{field.alias or key} = {value}\n"


@pytest.mark.parametrize("table", TABLES)
def test_a_value_of_the_wrong_kind_is_told_in_our_own_words(table: str, tmp_path: Path) -> None:
    file = tmp_path / "guideway.toml"
    told = {text: said for text in mistakes(table, TABLES[table]) if (said := mistake(file, text))}
    assert len(told) > len(VALUES) / 2
    assert {text: said for text, said in told.items() if THEIRS.search(said)} == {}


def mistake(file: Path, text: str) -> str | None:
    """Return what is said of a configuration, None where it is good."""
    file.write_text(text)
    try:
        config.load(file)
    except ConfigError as error:
        return str(error)
    return None
