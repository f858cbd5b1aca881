import importlib.metadata
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import chainrule
from chainrule.cli import doctor
from chainrule.nn.native import availability, interface
from chainrule.nn.native.availability import Availability, Registers

from .conftest import Command


def test_a_healthy_machine_is_told_so(cli: Command) -> None:
    result = cli("doctor")
    assert result.code == 0
    assert result.out.splitlines()[-1].split(maxsplit=1) == ["verdict", "all well"]
    assert "pip install 'chainrule[cuda12]'" in result.out


def test_machines_get_every_finding(cli: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"12345")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    found = cli("doctor", "--json").last
    assert found["problems"] == []
    assert found["packages"]["jax"]
    assert found["device"]["devices"][0]["platform"] == "cpu"
    assert found["machine"]["cores"] >= 1
    assert found["runs"]["free"] > 0
    assert "digits" in found["data"]
    assert found["cache"] == {"path": str(tmp_path), "bytes": 5}


def test_a_cache_that_is_switched_off_is_told(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setenv("CHAINRULE_NO_CACHE", "1")
    assert "cache    off (CHAINRULE_NO_CACHE is set)" in cli("doctor").out


def test_native_code_that_is_used_is_told_with_the_switch(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "availability", lambda: Availability(Registers(16, 32), ""))
    assert (
        "native   CPU code for registers of 16 numbers   CHAINRULE_NATIVE=0 switches it off"
        in cli("doctor").out
    )
    assert cli("doctor", "--json").last["native"] == {"lanes": 16, "reason": ""}


def test_native_code_that_is_switched_off_is_told(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINRULE_NATIVE", "0")
    result = cli("doctor")
    assert result.code == 0
    assert "native   no CPU code, layers run slower: switched off by CHAINRULE_NATIVE=0" in result.out


def test_native_code_that_xla_cannot_call_is_told_with_the_reason(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interface, "refusal", lambda: "XLA's interface has version 1.0")
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: {"avx512f": True})
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delenv("CHAINRULE_NATIVE", raising=False)
    availability._availability.cache_clear()
    found = cli("doctor", "--json").last
    availability._availability.cache_clear()
    assert found["native"] == {"lanes": None, "reason": "XLA's interface has version 1.0"}
    assert found["problems"] == []


def test_a_switch_with_another_value_is_a_problem(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINRULE_NATIVE", "no")
    result = cli("doctor")
    assert result.code == 1
    assert "problem  CHAINRULE_NATIVE=no: it must be 0" in result.out


def test_every_extra_that_users_can_install_is_explained() -> None:
    extras = {extra for _, extra in doctor._requirements() if extra}
    assert extras - {"test", "oracles"} == set(doctor._ENABLES)


def test_an_extra_is_installed_when_all_its_packages_are(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [
        ("tokenizers", "text"),
        ("jax", "cuda12"),
        ("jax-cuda12-plugin", "cuda12"),
        ("jax-cuda13-plugin", "cuda13"),
    ]
    monkeypatch.setattr(doctor, "_requirements", lambda: wanted)
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name in ("tokenizers", "jax") else None)
    assert {name: row["installed"] for name, row in doctor._extras().items()} == {
        "text": True,
        "cuda12": False,
        "cuda13": False,
    }


def test_a_missing_package_is_a_problem(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "optax" else real(name))
    result = cli("doctor")
    assert result.code == 1
    assert "problem  missing: optax   remedy: pip install optax" in result.out
    assert "1 problems" in result.out


def test_running_from_the_source_without_installation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", unknown)
    problems: list[str] = []
    assert doctor._packages(problems) == {"chainrule": chainrule.__version__}
    assert problems == ["Chainrule is not installed: it runs from its source   remedy: pip install . there"]


def test_a_folder_that_cannot_be_written_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    problems: list[str] = []
    found = doctor._writable(tmp_path / "not" / "yet", problems)
    assert found["free"] > 0
    assert problems == [f"cannot write to {tmp_path}   remedy: choose another folder with CHAINRULE_RUNS=DIR"]


@pytest.mark.parametrize(
    ("platforms", "tool", "answer", "plugin", "why", "remedy"),
    [
        ("cpu", None, None, None, "JAX_PLATFORMS=cpu asks for the CPU", "unset JAX_PLATFORMS"),
        ("", None, None, None, "no NVIDIA driver on this machine", ""),
        ("", "smi", (9, "", "driver mismatch"), None, "nvidia-smi fails: driver mismatch", "repair"),
        (
            "",
            "smi",
            (0, "H200, 550.1", ""),
            None,
            "H200, 550.1 is there, but JAX has no CUDA plugin",
            "[cuda12]",
        ),
        ("", "smi", (0, "H200, 550.1", ""), "jax-cuda12-plugin", "JAX does not use them", "jax.devices"),
    ],
)
def test_the_reason_for_having_no_gpu_is_found(
    monkeypatch: pytest.MonkeyPatch,
    platforms: str,
    tool: str | None,
    answer: tuple[int, str, str] | None,
    plugin: str | None,
    why: str,
    remedy: str,
) -> None:
    def run(*_: object, **__: object) -> SimpleNamespace:
        assert answer is not None
        return SimpleNamespace(returncode=answer[0], stdout=answer[1], stderr=answer[2])

    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.setattr("shutil.which", lambda name: tool)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name == plugin else None)
    found, advice = doctor._why_no_gpu()
    assert why in found
    assert remedy in advice
