"""The safety nets of the test suite are themselves tested: each must really stop what it is there to stop."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import pytest

from chainrule.core import random


def test_an_argument_of_the_wrong_shape_is_an_error() -> None:
    keys = jax.random.split(random.key(0), 2)
    random.named(keys[0], "noise")
    with pytest.raises(jaxtyping.TypeCheckError, match="parent"):
        random.named(keys, "noise")


def test_an_argument_of_the_wrong_type_is_an_error() -> None:
    with pytest.raises(jaxtyping.TypeCheckError, match="seed"):
        random.key("zero")  # type: ignore[arg-type]


def test_modules_of_tests_keep_their_fixtures() -> None:
    (finder,) = (f for f in sys.meta_path if type(f).__module__ == "jaxtyping._import_hook")
    assert finder.should_instrument("chainrule.nn.losses")  # type: ignore[attr-defined]
    assert not finder.should_instrument("chainrule.models.diffusion.vdm.test_vdm")  # type: ignore[attr-defined]


def test_arrays_of_different_rank_do_not_mix_silently() -> None:
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 3)) + jnp.ones(3)


def test_every_module_of_the_package_is_loaded_once_under_its_own_name() -> None:
    source = Path(sys.modules["chainrule"].__file__ or "").parent
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and Path(path).is_relative_to(source) and not Path(path).name.startswith("test_"):
            assert name.split(".")[0] == "chainrule"


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "example.org"])
def test_a_test_cannot_reach_another_machine(host: str) -> None:
    with pytest.raises(RuntimeError, match="must not use the network"):
        socket.create_connection((host, 80), timeout=0.1)


def test_a_test_cannot_send_a_datagram_to_another_machine() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        pytest.raises(RuntimeError, match="network"),
    ):
        sender.sendto(b"hello", ("192.0.2.1", 9))


def test_loopback_connections_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for host in ("127.0.0.1", "localhost"):
            with socket.create_connection((host, server.getsockname()[1]), timeout=5):
                pass


def test_a_process_started_by_a_test_cannot_reach_another_machine() -> None:
    program = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=0.1)"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.returncode != 0
    assert "must not use the network" in child.stderr


def test_runs_and_caches_go_to_a_temporary_folder(tmp_path: Path) -> None:
    session = tmp_path.parent
    for variable in ("CHAINRULE_RUNS", "XDG_CACHE_HOME"):
        assert Path(os.environ[variable]).is_relative_to(session)


def test_a_warning_is_an_error() -> None:
    import warnings

    with pytest.raises(UserWarning, match="careful"):
        warnings.warn("careful", stacklevel=1)


def test_a_method_that_returns_its_own_kind_is_still_checked() -> None:
    from typing import Self, final

    from tests.typecheck import enforce

    @final
    class Counter:
        @enforce
        def add(self, steps: int) -> tuple[int, Self]:
            return (steps if steps else "nothing"), self  # type: ignore[return-value]

    assert Counter().add(1)[0] == 1
    with pytest.raises(Exception, match="violates type hint"):
        Counter().add(0)
    with pytest.raises(Exception, match="violates type hint"):
        Counter().add("one")  # type: ignore[arg-type]
