"""What it takes to load a large inventory: each entry is read once, however many tenants there are and parts look."""

import gc
from collections import Counter
from pathlib import Path

import pytest

from guideway.interpreter.drivers.supervisord import SupervisordOptions
from guideway.server import config, policy, wiring
from guideway.server.config_errors import ConfigError

SERVICES = 50
TENANTS = 20


def test_each_entry_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(
        f'[services.s{number}]\ndriver = "supervisord"\nprogram = "p{number}"\nsocket = "s"\n'
        for number in range(SERVICES)
    )
    text += "".join(
        f'[tenants.t{number}.services.own{number}]\ndriver = "supervisord"\nprogram = "own{number}"\nsocket = "s"\n'
        for number in range(TENANTS)
    )
    file = tmp_path / "guideway.toml"
    file.write_text(text)
    counts: Counter[str] = Counter()
    unit_key, entry = SupervisordOptions.unit_key, policy._entry

    def counted_key(options: SupervisordOptions, machine: str | None = None) -> str:
        counts["unit"] += 1
        return unit_key(options, machine)

    def counted_entry(said: object) -> object:
        counts["entry"] += 1
        return entry(said)

    monkeypatch.setattr(SupervisordOptions, "unit_key", counted_key)
    monkeypatch.setattr(policy, "_entry", counted_entry)
    pipeline = wiring.build(config.load(file))
    assert len(pipeline.gate.rules.policy) == 1 + TENANTS
    assert counts == {"unit": SERVICES + TENANTS, "entry": SERVICES + TENANTS}


def test_nobody_looks_for_garbage_meanwhile_and_afterwards_somebody_does(tmp_path: Path) -> None:
    file = tmp_path / "guideway.toml"
    file.write_text("".join(f'[services.s{number}]\ndriver = "memory"\n' for number in range(2_000)))
    looked: list[str] = []

    def note(phase: str, _: object) -> None:
        looked.append(phase)

    config.load(None)
    gc.collect()
    gc.callbacks.append(note)
    try:
        read = config.load(file)
        during = list(looked)
    finally:
        gc.callbacks.remove(note)
    assert len(read.shared.services) == 2_000
    assert during.count("start") < 5  # as soon as they may, they do
    assert gc.isenabled()
    file.write_text("[services.x]\n")
    with pytest.raises(ConfigError):
        config.load(file)
    assert gc.isenabled()
