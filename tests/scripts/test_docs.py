"""What the documentation shows is what happens: its sessions are run, its configuration is read."""

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import BaseModel

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.drivers.ssh import SshOptions
from guideway.interpreter.probes import PROBES
from guideway.server import config, risk_sections, sections, telemetry_sections, wiring
from guideway.server.audit_section import AuditSection
from guideway.server.demo.world import World, world
from tests.scripts.session import say

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"\d+(\.\d+)*")


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def turns(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command that a page shows, and what it shows below it."""
    for block in blocks(page, "console"):
        lines = block.splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in pairwise([*starts, len(lines)]):
            yield lines[start].removeprefix("$ "), lines[start + 1 : end]


def as_shown(line: str, made: World) -> str:
    """Return a line without what is this machine's alone."""
    return line.replace(str(made.configuration), "guideway.toml").replace(sys.prefix, "/opt/guideway").rstrip()


@pytest.fixture(scope="module")
def made() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.mark.parametrize(
    ("page", "file", "language"), [("cli.md", "incident.diag", ""), ("grammar.md", "held.py", "python")]
)
def test_the_sessions_of_a_page_are_true(made: World, tmp_path: Path, page: str, file: str, language: str) -> None:
    (tmp_path / file).write_text(blocks(page, language)[0])
    shown = list(turns(page))
    assert len(shown) >= 12
    for command, expected in shown:
        written = say(f"{{ {command}\n}} 2>&1", tmp_path, tmp_path, GUIDEWAY_CONFIG=str(made.configuration))
        if re.fullmatch(r"\[\d+\]", written[-1] if written else ""):
            written.pop()  # a page shows no exit codes
        written = [as_shown(line, made) for line in written]
        assert [NUMBER.sub("N", line) for line in written] == [NUMBER.sub("N", line) for line in expected], command


def test_the_configuration_that_the_page_begins_with_is_read(tmp_path: Path) -> None:
    whole = blocks("configuration.md", "toml")[0]
    file = tmp_path / "guideway.toml"
    file.write_text(whole)
    read = config.load(file)
    assert wiring.caller(read).scopes
    assert read.shared.hosts
    assert read.shared.services


def test_the_page_of_the_configuration_names_every_key_with_its_default() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    with_defaults: list[type[BaseModel]] = [sections.LimitsSection, sections.DeadlinesSection]
    others: list[type[BaseModel]] = [
        *(sections.ServerSection, sections.TlsSection, sections.IssuerSection, sections.IntrospectionSection),
        *(sections.DevelopmentIssuerSection, sections.TenantSection),
        *(sections.CallerSection, sections.HostSection, sections.ServiceSection, SshOptions),
        *(risk_sections.GroupSection, risk_sections.FreezeSection, risk_sections.BoundsSection),
        *(risk_sections.ApprovalsSection, risk_sections.WebhookSection, risk_sections.StoreSection),
        *(telemetry_sections.MetricsSection, telemetry_sections.TelemetrySection),
        AuditSection,
    ]
    tables = [*with_defaults, *others, *PROBES.values(), *DRIVERS.values()]
    keys = {field.alias or key for section in tables for key, field in section.model_fields.items()}
    keys |= {"caller", "probe", "driver", "health"}
    assert rows == keys - {"tls", "hosts", "webhooks"}  # these are headings
    for kind in (*PROBES, *DRIVERS):
        assert f'`"{kind}"`' in page
    defaults = {key: field.default for section in with_defaults for key, field in section.model_fields.items()}
    for key, default in defaults.items():
        shown = f"{default:,g}" if isinstance(default, float | int) and key != "port" else f"{default}"
        assert re.search(rf"^\| `{key}` \|[^|]*\| `?\"?{re.escape(shown)}\"?`? \|", page, re.MULTILINE), key
