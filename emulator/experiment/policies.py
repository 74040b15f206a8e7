"""Looking up the policies of an experiment: built-in ones by name, the user's own by ``module:function``."""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from emulator.errors import ConfigError, RunError
from emulator.experiment.model import Choice
from emulator.files.problems import Problem, suggestion, unknown_key
from emulator.files.yaml_positions import dotted
from emulator.own_code import part
from emulator.own_packages import PUBLIC, of_the_same_name
from emulator.policies.policy import Axis, Policy, PolicyT

_REFUSAL = re.compile(r"Expected `([^`]+)`(?: (>=|<=|>|<) ([-+.\de]+))?(?:, got `([^`]+)`)?")
_RELATIONS = {">=": "at least", "<=": "at most", ">": "greater than", "<": "less than"}
_WORKING = ""
"""The working directory, as ``sys.path`` has it."""
_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping of keys to values",
}


def find_policy(axis: Axis[PolicyT], choice: Choice, base_dir: Path) -> PolicyT:
    """The policy that ``choice`` names on ``axis``, with its options applied.

    Modules are also searched in ``base_dir`` and in the working directory.  ``module:name`` may be a function, or a
    policy record.

    Raises:
        ConfigError: there is no policy of that name, it cannot be imported, or it does not accept these options.
    """
    policy, problems = _look_up(axis, choice, base_dir)
    if policy is None:
        raise ConfigError("\n".join(f"{dotted((axis.name, *where))}: {what}" for where, what in problems))
    return policy


def policy_problems(axis: Axis[Any], choice: Choice, base_dir: Path) -> list[Problem]:
    """The problems of a choice; locations are relative to it."""
    return _look_up(axis, choice, base_dir)[1]


def _look_up(axis: Axis[PolicyT], choice: Choice, base_dir: Path) -> tuple[PolicyT | None, list[Problem]]:
    try:
        policy = _named(axis, choice.name, base_dir)
    except ConfigError as error:
        return None, [(("name",), error.message)]
    if policy.options is None:
        unwanted: list[Problem] = [((key,), f"'{choice.name}' takes no options; remove it") for key in choice.options]
        return (None if unwanted else policy), unwanted
    problems = _option_problems(policy, choice)
    if problems:
        return None, problems
    return policy.with_options(msgspec.convert(choice.options, policy.options)), []


def _option_problems(policy: Policy[Any], choice: Choice) -> list[Problem]:
    assert policy.options is not None
    known = [field.encode_name for field in msgspec.structs.fields(policy.options)]
    unknown: list[Problem] = [((key,), unknown_key(key, known)) for key in choice.options if key not in known]
    if unknown:
        return unknown
    try:
        msgspec.convert(choice.options, policy.options)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        return [(tuple(key for key in where.rstrip("`").split(".") if key), _in_words(what))]
    return []


def _in_words(refusal: str) -> str:
    """The reason why msgspec refuses a value, in the words of a file's other problems."""
    found = _REFUSAL.fullmatch(refusal)
    if found is None:
        return refusal[0].lower() + refusal[1:]
    kind, relation, bound, given = found.groups()
    if relation:
        return f"must be {_RELATIONS[relation]} {float(bound):g}"
    return f"must be {_KINDS.get(kind, kind)}" + (f", not {_KINDS.get(given, given)}" if given else "")


def _named(axis: Axis[PolicyT], name: str, base_dir: Path) -> PolicyT:
    known = axis.by_name.get(name)
    if known is not None:
        return known
    names = ", ".join(axis.names)
    if ":" not in name:
        near = suggestion(name, axis.names)
        kind = axis.name.replace("_", " ")
        raise ConfigError(f"there is no {kind} '{name}'{near} (choose {names}, or module:function)")
    found = _imported(name, base_dir)
    if isinstance(found, axis.record):
        score = found.score and replace(
            found.score, value=_guarded(f"the score of {axis.name}", name, found.score.value)
        )
        return replace(found, name=name, function=_guarded(axis.name, name, found.function), score=score)
    if not callable(found):
        raise ConfigError(f"'{name}': is neither a function nor a {axis.record.__name__}")
    return axis.own(name, _guarded(axis.name, name, found))


def _imported(reference: str, base_dir: Path) -> Any:
    """The object that ``module:name`` names."""
    module_name, _, attribute = reference.partition(":")
    part()
    with _importable(base_dir):
        try:
            module = importlib.import_module(module_name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a user's module may raise anything, and may even end with status 0
            message = f"'{reference}': module '{module_name}' cannot be imported: {error!r}"
            advice = of_the_same_name([str(base_dir.absolute())]) if isinstance(error, ImportError) else None
            if not advice and isinstance(error, ModuleNotFoundError) and error.name == module_name:
                advice = "it must be beside the file, or in the directory where natjam is called"
            raise ConfigError(f"{message}; {advice}" if advice else message) from None
    if not hasattr(module, attribute):
        raise ConfigError(f"'{reference}': module '{module_name}' has no function '{attribute}'")
    return getattr(module, attribute)


def _guarded(axis: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's own policy, wrapped so that its failures name it."""

    @wraps(function)
    def policy(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            what = f"{type(error).__name__}: {error}"
            if isinstance(error, AttributeError) and error.name is not None:
                what += suggestion(error.name, dir(error.obj))
            raise RunError(f"{_place(name, function, error)}{axis} policy {name} raised {what}") from error

    return policy


def _place(name: str, function: Callable[..., Any], error: BaseException) -> str:
    """``file:line: `` of the line that raised in the user's module; of the function if no line of it was reached."""
    module = sys.modules.get(name.partition(":")[0])
    frames = traceback.extract_tb(error.__traceback__)[1:]
    mine = [frame for frame in frames if frame.filename == getattr(module, "__file__", None)] or frames
    if mine:
        return f"{mine[-1].filename}:{mine[-1].lineno}: "
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code else ""


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """Modules of a directory can be imported, as if Python had been started with a file in it, and those of the working
    directory: a run's file is in the run's directory, and the user's own policies are where the run was started.

    So can ``natjam``, also where the working directory has a checkout of that name, as on machines of ``cluster.yaml``.
    """
    first, last = str(directory.absolute()), str(PUBLIC)
    sys.path.insert(0, first)
    sys.path += [last, _WORKING]
    try:
        yield
    finally:
        sys.path.remove(first)
        for each in (last, _WORKING):
            del sys.path[-1 - sys.path[::-1].index(each)]
