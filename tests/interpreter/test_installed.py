"""Drivers and probes of other packages: found by entry point when a configuration names them, and not before."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from guideway.interpreter.drivers import DRIVERS
from guideway.interpreter.extras import install as how_to_install
from guideway.server.config import load
from guideway.server.config_errors import ConfigError

CODE = """
from guideway.interpreter.drivers.base import DriverOptions, Echo, ProbeOptions
from guideway.interpreter.drivers.memory import MemoryDriver

class Launchd(DriverOptions):
    label: str

    def build(self):
        return MemoryDriver()

class Pigeon(ProbeOptions):
    coop: str

    def build(self):
        raise AssertionError("nothing is made here")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that packages can be installed into."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def install(site: Path, package: str, point: str, value: str, code: str = CODE) -> None:
    """Install a package with one module and one entry point, ``driver.NAME`` or ``probe.NAME``."""
    group, _, name = point.partition(".")
    module = value.partition(":")[0]
    (site / f"{module}.py").write_text(code)
    info = site / f"{package.replace('-', '_')}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[guideway.{group}s]\n{name} = {value}\n")
    importlib.invalidate_caches()  # Python notices a new file by its folder's time, which is coarse


def mistakes(tmp_path: Path, text: str) -> str:
    file = tmp_path / "guideway.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    return str(caught.value)


def test_a_driver_of_another_package_can_be_named(site: Path, tmp_path: Path) -> None:
    install(site, "guideway-launchd", "driver.launchd", "gw_launchd:Launchd")
    install(site, "guideway-pigeon", "probe.pigeon", "gw_pigeon:Pigeon")
    file = tmp_path / "guideway.toml"
    file.write_text(
        '[services.a]\ndriver = "launchd"\nlabel = "com.example"\nhealth = { probe = "pigeon", coop = "roof" }\n'
        '[hosts.b]\nprobe = "pigeon"\ncoop = "barn"\n'
    )
    entry = load(file).shared.services["a"]
    assert (entry.kind, entry.health_kind, type(entry.driver).__name__) == ("launchd", "pigeon", "Launchd")
    told = mistakes(tmp_path, '[services.a]\ndriver = "launchd"\nlabl = "x"\n')
    assert "`services.a.labl` is not known; did you mean `label`?" in told


def test_a_package_that_cannot_be_loaded_is_named(site: Path, tmp_path: Path) -> None:
    install(site, "guideway-broken", "driver.broken", "gw_broken:Broken", "raise RuntimeError('no')")
    assert mistakes(tmp_path, '[services.a]\ndriver = "broken"\n').endswith(
        "guideway.toml:2: `services.a.driver` is of `guideway-broken`, which cannot be loaded: RuntimeError from "
        "`gw_broken:Broken`"
    )


@pytest.mark.parametrize("code", ["Other = dict", "def Other(): pass", "Other = 3"])
def test_what_is_no_driver_is_none(site: Path, tmp_path: Path, code: str) -> None:
    module = f"gw_other_{abs(hash(code))}"
    install(site, "guideway-other", "driver.other", f"{module}:Other", code)
    told = mistakes(tmp_path, '[services.a]\ndriver = "other"\n')
    assert f"is of `guideway-other`, whose `{module}:Other` is not a DriverOptions" in told


def test_two_packages_with_one_name_are_refused(site: Path, tmp_path: Path) -> None:
    install(site, "guideway-one", "driver.twin", "gw_one:Launchd")
    install(site, "guideway-two", "driver.twin", "gw_two:Launchd")
    assert "is claimed by several packages, `guideway-one`, `guideway-two`: uninstall all but one" in mistakes(
        tmp_path, '[services.a]\ndriver = "twin"\nlabel = "x"\n'
    )


def test_a_name_of_our_own_cannot_be_taken(site: Path) -> None:
    ours = DRIVERS["memory"]
    install(site, "guideway-thief", "driver.memory", "gw_thief:Launchd", "raise SystemExit")
    assert DRIVERS["memory"] is ours


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ('[services.a]\ndriver = "memory"\n', "none"),
        ('[services.a]\ndriver = "systemd"\nunit = "a.service"\n', "none"),
        ('[services.a]\ndriver = "launchd"\nlabel = "a"\n', "gw_launchd"),
    ],
)
def test_reading_a_configuration_loads_what_it_names_and_no_more(
    site: Path, tmp_path: Path, text: str, loaded: str
) -> None:
    install(site, "guideway-launchd", "driver.launchd", "gw_launchd:Launchd")
    file = tmp_path / "guideway.toml"
    file.write_text(text)
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r}); from pathlib import Path\n"
        f"from guideway.server.config import load; load(Path({str(file)!r}))\n"
        "print(*({'dbus_fast', 'gw_launchd'} & set(sys.modules)) or ['none'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == loaded


def test_the_systemd_driver_without_its_library_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text('[services.a]\ndriver = "systemd"\nunit = "a.service"\n')
    code = (
        "import sys; sys.modules['dbus_fast'] = None; from pathlib import Path\n"
        "from guideway.server.config import load; from guideway.server.config_errors import ConfigError\n"
        f"try:\n    load(Path({str(file)!r}))\nexcept ConfigError as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert f"needs the package `dbus-fast`: {how_to_install('systemd')}" in ran.stdout
