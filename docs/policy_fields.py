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
from emulator.field_texts import class_of, fields_of, first_paragraph, string_text, type_text
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
        arguments = ", ".join(f"{name}: {type_text(each)}" for name, each in zip(names, given.elts, strict=True))
        yield f"| `{axis}` | `mine({arguments})` gives `{type_text(returned)}` | {string_text(body[at + 1])} |"
    assert set(_RULES) == set(AXES)


def _given() -> Iterator[str]:
    for module, names in GIVEN.items():
        for name in names:
            yield from _table(module, name)


def _returned() -> Iterator[str]:
    for name in RETURNED:
        yield from _table(views, name)


def _table(module: Any, name: str) -> Iterator[str]:
    node = class_of(getattr(module, name))
    yield f"\n## {name}\n\n{first_paragraph(ast.get_docstring(node))}\n"
    yield "| field | type | what it is |"
    yield "|---|---|---|"
    for field, kind, text in fields_of(node):
        yield f"| `{field}` | `{kind}` | {text} |"


def _is_called(item: ast.AnnAssign, name: str) -> bool:
    return isinstance(item.target, ast.Name) and item.target.id == name


if __name__ == "__main__":
    PAGE.write_text(page())
