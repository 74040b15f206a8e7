"""Writes docs/policy-fields.md, what policies are given and return, field by field: python docs/policy_fields.py

The names, types and texts are those of the source: ``emulator/policies/policy.py`` (the axes),
``emulator/policies/views.py`` and the values that these hold.  A test compares the page with what this file makes.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emulator import vocabulary
from emulator.policies import capacity, policy, views
from emulator.policies.axes import AXES

PAGE = Path(__file__).with_name("policy-fields.md")
GIVEN = {
    views: ("ClusterView", "QueueView", "JobView", "TaskView", "SuspendedView", "NodeView"),
    vocabulary: ("JobFacts", "MeasuredCosts", "Tier"),
    capacity: ("Capacity",),
}
RETURNED = ("AllocationDecision", "ShareDecision", "MechanismDecision", "PlacementDecision")
_RULES = {
    "allocation": ("AllocationRule", ("view",)),
    "job_selection": ("JobSelection", ("view", "jobs")),
    "job_eviction": ("JobEviction", ("view", "jobs", "random")),
    "task_eviction": ("TaskEviction", ("view", "tasks", "random")),
    "mechanism": ("MechanismChoice", ("view", "task")),
    "placement": ("Placement", ("view", "suspended", "node")),
    "resume_order": ("ResumeOrder", ("view", "suspended")),
    "fit": ("Fit", ("view", "request", "nodes", "offer")),
}
"""The form of each axis' function in ``emulator.policies.policy``, and the names of its arguments."""
_HEAD = """\
# What policies see

Each field of what a policy is given, and of what it may return. [Policies of your own](policies.md) has an example for
each axis. This page is made from the source by `python docs/policy_fields.py`.

Instants and durations (`..._ns`) are emulated nanoseconds; counts are containers; `..._bytes` are emulated bytes; a
share in millionths ends in `_ppm`. What the caller cannot know is `None`: an ApplicationMaster, which chooses among the
tasks of its own job, knows no other job and no node; the ResourceManager knows no progress of single tasks.

"""


def page() -> str:
    """The whole page, as Markdown."""
    return _HEAD + "\n".join([*_axes(), *_given(), *_returned()]) + "\n"


def _axes() -> Iterator[str]:
    yield "## What each axis is asked\n"
    yield "| axis | called as | it says |"
    yield "|---|---|---|"
    body = ast.parse(inspect.getsource(policy)).body
    for axis, (form, names) in _RULES.items():
        at = next(at for at, item in enumerate(body) if isinstance(item, ast.AnnAssign) and _is_called(item, form))
        given, returned = body[at].value.slice.elts  # type: ignore[attr-defined]
        arguments = ", ".join(f"{name}: {_type(each)}" for name, each in zip(names, given.elts, strict=True))
        yield f"| `{axis}` | `mine({arguments})` gives `{_type(returned)}` | {_string(body[at + 1])} |"
    assert set(_RULES) == set(AXES)


def _given() -> Iterator[str]:
    for module, names in GIVEN.items():
        for name in names:
            yield from _table(module, name)


def _returned() -> Iterator[str]:
    for name in RETURNED:
        yield from _table(views, name)


def _table(module: Any, name: str) -> Iterator[str]:
    node = _class(module, name)
    yield f"\n## {name}\n\n{_text(ast.get_docstring(node))}\n"
    yield "| field | type | what it is |"
    yield "|---|---|---|"
    for field, kind, text in _fields(node):
        yield f"| `{field}` | `{kind}` | {text} |"


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Name, type and text of each public field, property and method."""
    body = _initialised(node) + node.body
    for item, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = "" if item.value is None else f" = {ast.unparse(item.value)}"
            yield item.target.id, _type(item.annotation) + default, _string(after)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Attribute):
            yield item.targets[0].attr, _TYPES[node.name, item.targets[0].attr], _string(after)
        elif isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            if any("property" in ast.unparse(decorator) for decorator in item.decorator_list):
                yield item.name, _type(item.returns), _text(ast.get_docstring(item))
            else:
                arguments = ", ".join(each.arg for each in item.args.args[1:])
                yield f"{item.name}({arguments})", _type(item.returns), _text(ast.get_docstring(item))


_TYPES = {
    ("ClusterView", "now_ns"): "int",
    ("Capacity", "steps"): "tuple[tuple[int, int], ...]",
    ("Capacity", "period_ns"): "int or None",
}


def _initialised(node: ast.ClassDef) -> list[ast.stmt]:
    """The public attributes that ``__init__`` sets and describes."""
    found: list[ast.stmt] = []
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for item, after in zip(method.body, [*method.body[1:], None], strict=True):
                is_public = isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Attribute)
                if is_public and not item.targets[0].attr.startswith("_") and isinstance(after, ast.Expr):  # type: ignore[union-attr]
                    found += [item, after]
    return found


def _is_called(item: ast.AnnAssign, name: str) -> bool:
    return isinstance(item.target, ast.Name) and item.target.id == name


def _class(module: Any, name: str) -> ast.ClassDef:
    tree = ast.parse(inspect.getsource(module))
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _type(annotation: ast.expr | None) -> str:
    return "None" if annotation is None else ast.unparse(annotation).replace(" | ", " or ")


def _string(node: ast.stmt | None) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return _text(node.value.value) if is_text else ""  # type: ignore[union-attr]


def _text(docstring: str | None) -> str:
    """The first paragraph, in one line of a table."""
    return " ".join((docstring or "").split("\n\n")[0].split()).replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(page())
