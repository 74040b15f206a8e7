"""What the source says of each field of a class: for pages, and for ``help()`` of what a user's policies are given."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from functools import cache

_UNITS = "Times (..._ns) are emulated nanoseconds, ..._bytes emulated bytes, ..._ppm millionths; counts are containers."


def docstring_with_fields(of: type) -> str:
    """The docstring of a class, followed by its fields with their types and meanings."""
    docstring = inspect.cleandoc(of.__doc__ or "")
    try:
        fields = [*fields_of(class_of(of))]
    except (OSError, StopIteration):  # natjam is installed without its source
        return docstring
    lines = [docstring, "", _UNITS, ""]
    for name, kind, text in fields:
        lines += [f"{name}: {kind}", textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join(lines)


def fields_of(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Name, type and text of each public field, property and method."""
    body = _initialised(node) + node.body
    for item, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = "" if item.value is None else f" = {ast.unparse(item.value)}"
            yield item.target.id, type_text(item.annotation) + default, string_text(after)
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Attribute):
            yield item.targets[0].attr, _TYPES[node.name, item.targets[0].attr], string_text(after)
        elif isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            if any("property" in ast.unparse(decorator) for decorator in item.decorator_list):
                yield item.name, type_text(item.returns), first_paragraph(ast.get_docstring(item))
            else:
                arguments = ", ".join(each.arg for each in item.args.args[1:])
                yield f"{item.name}({arguments})", type_text(item.returns), first_paragraph(ast.get_docstring(item))


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


def class_of(of: type) -> ast.ClassDef:
    """The source of a class.  Raises OSError, StopIteration: there is none."""
    return next(
        node for node in _source(of.__module__).body if isinstance(node, ast.ClassDef) and node.name == of.__name__
    )


@cache
def _source(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def type_text(annotation: ast.expr | None) -> str:
    """An annotation in words."""
    return "None" if annotation is None else ast.unparse(annotation).replace(" | ", " or ")


def string_text(node: ast.stmt | None) -> str:
    """The first paragraph of a string that stands alone; empty if it is none."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return first_paragraph(node.value.value) if is_text else ""  # type: ignore[union-attr]


def first_paragraph(docstring: str | None) -> str:
    """The first paragraph, in one line of a table."""
    return " ".join((docstring or "").split("\n\n")[0].split()).replace("``", "`")
