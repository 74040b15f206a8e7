"""The layers hold: who may import what, start processes, and send signals."""

from __future__ import annotations

import ast
import graphlib
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from emulator.experiment.load import load_experiment
from emulator.live.hosts.plan import make_plan
from emulator.resolved import resolve
from tests.simulated_runs import FIG4

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("emulator", "workloads", "analysis")
PURE = {
    *("__future__", "abc", "bisect", "collections", "collections.abc", "copy", "dataclasses", "decimal", "enum"),
    *("fractions", "functools", "hashlib", "heapq", "itertools", "math", "operator", "random", "struct", "types"),
    "typing",
    *("msgspec", "msgspec.structs"),
    *("numpy", "numpy.typing"),  # where a decision is about thousands of jobs
}
"""What core and policies may import: nothing that does I/O, reads a clock or keeps state of its own."""
RAY_MODULES = {
    "emulator/live/hosts/actors.py",
    "emulator/live/session/ray_runtime.py",
    "emulator/live/session/run_hosts.py",
    "emulator/live/session/session.py",
    "emulator/campaign/ray_workers.py",
}
"""The live engine, and what spreads a campaign over a cluster of Ray."""
SPAWNING = {"subprocess", "pty"}
FORKING = {"fork", "forkpty", "posix_spawn", "system", "popen", "execv", "execve", "execvp"}
SENDING = {"kill", "killpg", "pidfd_send_signal", "raise_signal", "pthread_kill"}
PARTER = "emulator/own_code.py"
"""Parts the process of a command in two, and passes signals on from one to the other."""
SIGNALLERS = {
    "emulator/live/tasks/supervisor.py",
    "emulator/live/janitor.py",
    "emulator/live/probe.py",  # the program that ``natjam probe`` has started, and no other
    "emulator/live/cgroups.py",  # who is still in a cgroup of a run, or of a host, that has ended
    "emulator/live/session/detached.py",  # the run that ``natjam stop`` names, and no other
    "emulator/external.py",  # the keeper of the process that decides the allocation
    PARTER,
}
FORKERS = {PARTER, "emulator/cli/script.py"}  # the second only takes its own place
SELF_SIGNALLERS = {"emulator/live/tasks/task.py", "emulator/interruption.py", "emulator/external_keeper.py"}
SPREADER = "emulator/campaign/spread.py"
"""Spreads the simulations of a campaign over the cores; what is in analysis may spread its computations."""
UNSAFE_READERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
PLAIN_YAML = {("yaml", name) for name in ("safe_load", "safe_dump", "dump", "compose_all")}
"""They read plain values, or nodes; whatever they write is ours."""


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


ALL = sources(*PACKAGES)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All that is written in a file; several tests read each."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> tuple[tuple[str, str], ...]:
    """Every import in a file, in functions too: the module, and the name taken from it ('' for the module itself)."""
    found: list[tuple[str, str]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            found += [(node.module or "", alias.name) for alias in node.names]
    return tuple(found)


@cache
def calls(path: Path) -> tuple[tuple[str, str, ast.Call], ...]:
    """Every call ``receiver.name(...)`` in a file; receiver '' for a plain name."""
    made = [node for node in nodes_of(path) if isinstance(node, ast.Call)]
    return tuple(
        (ast.unparse(call.func.value), call.func.attr, call)
        if isinstance(call.func, ast.Attribute)
        else ("", call.func.id, call)
        for call in made
        if isinstance(call.func, ast.Attribute | ast.Name)
    )


def in_package(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize(
    "path",
    [*sources("emulator/core", "emulator/policies", "emulator/sites"), ROOT / "emulator/vocabulary.py"],
    ids=name_of,
)
def test_core_and_policies_are_pure(path: Path) -> None:
    for module, name in imports(path):
        ours = (
            module in ("emulator", "emulator.vocabulary")
            or in_package(module, "emulator.sites")
            or in_package(module, "emulator.core")
            or in_package(module, "emulator.policies")
        )
        assert ours or module in PURE, f"imports {module}"
        if module == "random":
            assert name == "Random", "draws must come from a Random that was handed in, not from the module's own"
    for receiver, name, _ in calls(path):
        assert (receiver, name) not in {("", "open"), ("", "print"), ("", "input"), ("", "hash"), ("", "id")}, name


def test_ray_spawning_and_pickles_stay_in_their_places() -> None:
    for path in ALL:
        name = name_of(path)
        modules = {module for module, _ in imports(path)}
        if name not in RAY_MODULES:
            assert not any(in_package(module, "ray") for module in modules), name
        if not name.startswith(("emulator/live/", "emulator/external")):
            assert not modules & SPAWNING, name
            forks = {function for receiver, function, _ in calls(path) if receiver == "os"} & FORKING
            assert not forks or name in FORKERS, name
        if not name.startswith("analysis/") and name != SPREADER:
            assert not any(in_package(module, "multiprocessing") for module in modules), name
        assert not modules & UNSAFE_READERS, name


def test_signals_are_sent_by_supervisor_janitor_and_probe_only() -> None:
    for path in ALL:
        name = name_of(path)
        for receiver, function, call in calls(path):
            where = f"{name}: {receiver}.{function}"
            if receiver in ("os", "signal") and function in SENDING and name not in SIGNALLERS:
                assert name in SELF_SIGNALLERS, where
                assert ast.unparse(call.args[0]) == "os.getpid()", f"{where}: they may only signal themselves"
            assert function not in ("send_signal", "terminate") or name.startswith("emulator/live/"), where
        for module, imported in imports(path):
            found = module in ("os", "signal") and imported in SENDING
            assert not found, f"{name}: call it as os.kill, so that it is found"


def test_nothing_read_can_become_code() -> None:
    for path in ALL:
        name = name_of(path)
        if path.name != "yaml_values.py":
            taken = [f"{module}.{taken}" for module, taken in imports(path) if in_package(module, "yaml") and taken]
            assert not taken, f"{name}: call it as yaml.safe_load, so that it is found"
        for receiver, function, call in calls(path):
            where = f"{name}, line {call.lineno}: {receiver}.{function}"
            assert not in_package(receiver, "yaml") or (receiver, function) in PLAIN_YAML, f"{where} may make objects"
            assert receiver or function not in ("eval", "exec", "compile", "__import__"), where
            assert function not in ("read_pickle", "to_pickle", "loads_pickle"), where
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert "allow_pickle" not in given, where
            assert given.get("shell", "False") == "False", where
            assert given.get("typ", "'safe'") in ("'safe'", "'rt'"), f"{where}: a YAML loader that makes objects"


ROOMS = (
    *("emulator", "emulator.vocabulary", "emulator.errors", "emulator.interruption", "emulator.own_packages"),
    *("emulator.parent", "emulator.own_code", "emulator.sites"),
    *("emulator.shrink", "emulator.intervals", "emulator.field_texts"),
    *("emulator.files", "emulator.policies", "emulator.core", "emulator.core.node_manager"),
    *("emulator.core.application_master", "emulator.core.resource_manager"),
    *("emulator.costs", "emulator.storage", "workloads", "emulator.experiment"),
    *(
        "emulator.resolved",
        "emulator.records",
        "emulator.display",
        "emulator.engine",
        "emulator.external_keeper",
        "emulator.external",
        "emulator.sim",
        "emulator.fluid",
    ),
    *("emulator.live", "emulator.live.memory.swap_file"),
    *("emulator.live.janitor", "emulator.live.memory", "emulator.live.machines"),
    *("emulator.live.dumpers", "emulator.live.probe", "emulator.live.tasks", "emulator.live.services"),
    *("emulator.live.hosts", "emulator.live.session", "emulator.run", "emulator.campaign", "emulator.chaos"),
    *("emulator.loops", "emulator.measure", "analysis", "emulator.cli", "emulator.public"),
)
"""The house from its foundations up: a room knows only the rooms before it (docs/architecture.md)."""


def room_of(module: str) -> int:
    """Place in ``ROOMS`` of the room with the longest name that the module is in."""
    return max((room for room in enumerate(ROOMS) if in_package(module, room[1])), key=lambda room: len(room[1]))[0]


def test_no_room_knows_one_above_it() -> None:
    for path in ALL:
        mine = name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        known = [f"{module}.{name}" if name else module for module, name in imports(path)]
        ours = [module for module in known if module.startswith(PACKAGES)]
        upwards = [module for module in ours if room_of(module) > room_of(mine)]
        assert upwards == [], f"{mine}: {ROOMS[room_of(mine)]} is below them"


def test_no_circle_of_files() -> None:
    files = {name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in ALL}
    knows = {
        file: {
            name if name in files else name.rpartition(".")[0]
            for name in (f"{module}.{taken}" for module, taken in imports(path))
        }
        & set(files) - {file}
        for file, path in files.items()
    }
    graphlib.TopologicalSorter(knows).prepare()  # raises CycleError, which names the circle


def test_no_constant_of_a_module_has_two_values() -> None:
    """Two files that were joined had one each, of one name; linters see this of functions and classes only."""
    for path in ALL:
        body = ast.parse(path.read_text()).body
        targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
        targets += [node.target for node in body if isinstance(node, ast.AnnAssign)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        assert len(names) == len(set(names)), f"{path}: {sorted(names)}"


def test_an_importer_knows_no_scheduler() -> None:
    for path in sources("workloads"):
        known = [module for module, _ in imports(path) if in_package(module, "emulator.policies")]
        assert set(known) <= {"emulator.policies.capacity"}, name_of(path)


def test_engines_and_verifier_do_not_know_each_other() -> None:
    for path in sources("emulator/live"):
        assert not any(in_package(module, "emulator.sim") for module, _ in imports(path)), name_of(path)
    for module, _ in imports(ROOT / "analysis/verify.py"):
        assert not in_package(module, "emulator.live"), "the verifier recomputes, it does not share the code it checks"


_MODELS = ("pydantic", "yaml", "emulator.experiment", "emulator.costs", "emulator.resolved", "workloads")
_DATA = ("numpy", "pandas", "pyarrow", "scipy", "matplotlib")
_NODE, _MASTER, _MANAGER = (
    f"emulator.core.{role}" for role in ("node_manager", "application_master", "resource_manager")
)
_ALL_POLICIES = ("emulator.policies.axes", "emulator.policies.kubernetes", "emulator.policies.kueue")
IS_NOT_FOR = {
    "emulator.cli.main": ("ray", "numpy", "pandas", "pyarrow", "pydantic", "aiohttp"),
    "analysis.whole_run": ("ray", *_DATA),
    "emulator.sim.session": ("ray", *_DATA),
    "emulator.live.hosts.node_host": (
        *_MODELS,
        *_DATA,
        *_ALL_POLICIES,
        "aiohttp",
        "emulator.display",
        f"{_MASTER}.application_master",
        _MANAGER,
    ),
    "emulator.live.hosts.application_host": (*_MODELS, *_DATA, *_ALL_POLICIES, "aiohttp", _NODE, _MANAGER),
    "emulator.live.hosts.resource_manager_host": (
        *(*_MODELS, *_DATA, *_ALL_POLICIES, "aiohttp"),
        *(f"{_NODE}.node_manager", f"{_MASTER}.application_master"),
    ),
    "emulator.live.services.shuffle_service": (*_MODELS, *_DATA, "msgspec", "emulator.core"),
    # The hook of threading takes 0.4 ms of each fork.
    "emulator.live.tasks.supervisor": (*_MODELS, *_DATA, "aiohttp", "asyncio", "msgspec", "emulator.core", "threading"),
    "emulator.live.janitor": (*_MODELS, *_DATA, "aiohttp", "asyncio", "msgspec", "msgpack", "emulator.core"),
    "emulator.live.session.setup_worker": ("ray", "emulator.live.session.session", *_MODELS, *_DATA),
}
"""What processes of a live run, and the command line, must not import: who starts them waits for them."""


def imported_by(code: str, *arguments: str) -> set[str]:
    """All modules that a new process has after some code."""
    code = f"{code}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", IS_NOT_FOR)
def test_a_process_imports_what_it_runs(module: str) -> None:
    found = imported_by(f"import {module}")
    assert [name for name in sorted(found) if any(in_package(name, other) for other in IS_NOT_FOR[module])] == []


def test_a_plan_brings_the_policies_that_were_chosen_and_no_others(tmp_path: Path) -> None:
    plan = make_plan("00000000", resolve(load_experiment(FIG4, ["engine=live"])), "/out", ["127.0.0.1"])
    for kind, sent in (("resource_manager", plan), ("application", plan), ("node", plan.for_nodes())):
        host = f"emulator.live.hosts.{kind}_host"
        (tmp_path / "plan").write_bytes(pickle.dumps(sent))
        code = f"import pickle, sys, {host}; pickle.load(open(sys.argv[1], 'rb'))"
        found = imported_by(code, str(tmp_path / "plan"))
        assert [name for name in sorted(found) if any(in_package(name, other) for other in IS_NOT_FOR[host])] == []


IS_NOT_FOR_SIMULATIONS = (
    *("ray", "pandas", "scipy", "matplotlib", "aiohttp", "requests", "fsspec", "multiprocessing", "pyarrow.compute"),
    *("emulator.live", "emulator.fluid", "emulator.measure", "emulator.chaos", "emulator.loops"),
    *("emulator.policies.kubernetes", "emulator.policies.kueue", "emulator.policies.slurm"),
    *("emulator.costs.calibration", "emulator.sim.calibrated_costs", "workloads.importers", "workloads.load"),
    *("workloads.kueue", "workloads.kubernetes", "workloads.slurm", "workloads.yarn"),
)
"""What a simulated run of a plain experiment must not import: half of the time of a short one is imports."""


def test_a_simulated_run_imports_what_it_runs(tmp_path: Path) -> None:
    code = "import sys; from emulator.cli.main import app; app(sys.argv[1:], standalone_mode=False)"
    arguments = ("run", str(FIG4), "--engine", "sim", "--out", str(tmp_path / "run"))
    found = imported_by(f"{code}; print()", *arguments)
    assert "emulator.sim.session" in found
    assert [name for name in sorted(found) if any(in_package(name, other) for other in IS_NOT_FOR_SIMULATIONS)] == []
