"""The JSON schema of experiment and campaign files: with it, editors complete keys, say what they mean and mark typos.

It is made from the models that read the files, and from the texts below their fields in the source: if pydantic took
these into the models, as ``use_attribute_docstrings`` lets it, every command would begin 0.07 s later.  It accepts
every valid file; checks of several keys at once are left to ``natjam validate``.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from pydantic import BaseModel

from emulator.experiment.jobs_file import JobsFile
from emulator.experiment.model import Experiment
from emulator.policies.axes import AXES

_FILLED_IN = {
    "Cluster": ("nodes", "containers_per_node"),
    "Allocation": ("queues",),
    "Queue": ("maximum",),
    "Scheduler": ("mechanism",),
}
"""Keys that a file may leave out, although their models need them: other keys give them their values."""
_OWN_POLICY = {"type": "string", "pattern": "^[^:]+:[^:]+$", "description": "module:function of your own"}


def experiment_schema() -> dict[str, Any]:
    """The schema of an experiment file."""
    schema = editor_schema(Experiment)
    parts = schema["$defs"]
    for name, keys in _FILLED_IN.items():
        parts[name]["required"] = [other for other in parts[name]["required"] if other not in keys]
    axes = parts["Scheduler"]["properties"]
    for axis in AXES.values():
        held = parts["Allocation"]["properties"]["name"] if axis.name == "allocation" else axes[axis.name]
        names = ([held["default"]] if "default" in held else []) + list(axis.names)
        known = {"enum": list(dict.fromkeys(names))}
        others = [other for other in held.pop("anyOf", []) if "$ref" in other]
        held.pop("type", None)
        held["anyOf"] = [known, _OWN_POLICY, *others]
    jobs = parts["Workload"]["properties"]["jobs"]
    jobs["anyOf"].append(JobsFile.model_json_schema())
    return schema


def editor_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a file that ``model`` reads; each key is described by the text below its field."""
    schema = model.model_json_schema()
    schema["$schema"] = "http://json-schema.org/draft-07/schema#"
    parts = schema.get("$defs", {})
    for found in _models(model, {}).values():
        held = schema if found is model else parts.get(found.__name__, {})
        for name, text in _texts_of_fields(found).items():
            if name in held.get("properties", {}):
                held["properties"][name]["description"] = text
    return schema


def _models(model: type[BaseModel], found: dict[str, type[BaseModel]]) -> dict[str, type[BaseModel]]:
    """A model and all those inside it, by name."""
    found[model.__name__] = model
    waiting: list[Any] = [field.annotation for field in model.model_fields.values()]
    while waiting:
        annotation = waiting.pop()
        waiting += getattr(annotation, "__args__", ())
        is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        if is_model and annotation.__name__ not in found:
            _models(annotation, found)
    return found


def _texts_of_fields(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field in the source of a model."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(told))):
                texts[name] = " ".join(told.split())
    return texts
