"""Turns validation errors of a model into messages that name file, line and field and say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from emulator.errors import ConfigError, printable
from emulator.files.strict import PATTERN_WORDS
from emulator.files.yaml_positions import Document
from emulator.files.yaml_values import Location, dotted, kind_of

ModelT = TypeVar("ModelT", bound=BaseModel)

Problem = tuple[Location, str]
"""The location of a problem, and its message."""

MAX_PROBLEMS = 100
"""Most problems to report.  More at once help nobody, and a long list takes time to make."""
_MAX_ERRORS = 10 * MAX_PROBLEMS
"""Most errors of the library to look at; several of them may be one problem."""
_LONGEST_SUGGESTED_FROM = 1000
"""A name is compared with this many known ones; each comparison takes microseconds."""

_MISSING = "is missing; add it"
_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_KINDS = {
    "string_type": "text (in quotes if it looks like a number)",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "none_required": "null",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the nearest known word, or nothing."""
    near = _nearest(word, known)
    return f"; did you mean '{near}'?" if near else ""


def _nearest(word: str, known: Iterable[str]) -> str | None:
    return next(
        iter(difflib.get_close_matches(word, list(islice(known, _LONGEST_SUGGESTED_FROM)), n=1, cutoff=0.7)), None
    )


def validated(document: Document, model: type[ModelT]) -> ModelT:
    """The document as a ``model``.  Raises ConfigError: one line for each problem, with file, line and field."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise ConfigError(describe(validation_problems(error, model, document), document)) from None


def validation_problems(error: ValidationError, model: type[BaseModel], document: Document) -> list[Problem]:
    """The problems of a failed validation.  A field that may have several types gets one problem, not one per type."""
    found: dict[Location, list[ErrorDetails]] = {}
    for details in error.errors(include_url=False)[:_MAX_ERRORS]:
        found.setdefault(_location(details, document), []).append(details)
    problems: list[Problem] = []
    outer = {location[:length] for location in found for length in range(len(location))}
    for location, group in found.items():
        exact = [details for details in group if details["type"] not in _KINDS]
        if location in outer:
            # The problem is the error inside, not that the whole fits no type or counts as too short.
            exact = [details for details in exact if details["type"] != "too_short"]
            problems += [(location, _message(details, location, model)) for details in exact]
        elif exact:
            problems += [(location, _message(details, location, model)) for details in exact]
        else:
            kinds = list(dict.fromkeys(_KINDS[details["type"]] for details in group))
            problems.append((location, f"must be {' or '.join(kinds)}, not {kind_of(group[0]['input'])}"))
    misspelt = {
        (*location[:-1], near)
        for location, group in found.items()
        if group[0]["type"] == "extra_forbidden"
        and (near := _nearest(str(location[-1]), _keys_beside(model, location)))
    }
    return [(location, message) for location, message in problems if location not in misspelt or message != _MISSING]


def describe(problems: Iterable[Problem], document: Document) -> str:
    """Problems as lines of text without duplicates: first those of overrides, then in the order of the file."""

    def order(problem: Problem) -> tuple[bool, int]:
        origin = document.origin(problem[0])
        line = origin.rpartition(":")[2]
        return not origin.startswith("override "), int(line) if line.isdigit() else 0

    lines: dict[str, None] = {}
    for location, message in sorted(problems, key=order):
        field = f"{dotted(location)}: " if location else ""
        lines[f"{document.origin(location)}: {printable(field + message)}"] = None
        if len(lines) > MAX_PROBLEMS:
            lines.popitem()
            return "\n".join([*lines, f"{document.path}: has more problems than these {MAX_PROBLEMS}"])
    return "\n".join(lines)


def _location(details: ErrorDetails, document: Document) -> Location:
    """The location of an error, without the names that pydantic adds for the alternatives of a union."""
    parts = details["loc"]
    location: list[str | int] = []
    value: Any = document.data
    for index, part in enumerate(parts):
        in_list = isinstance(value, tuple) and isinstance(part, int) and part < len(value)
        if in_list or (isinstance(value, dict) and part in value):
            value = value[part]  # type: ignore[index]
            location.append(part)
        elif index == len(parts) - 1 and details["type"] == "missing":
            location.append(part)
    return tuple(location)


def _message(details: ErrorDetails, location: Location, model: type[BaseModel]) -> str:
    kind, context, given = details["type"], details.get("ctx", {}), details["input"]
    if kind == "extra_forbidden":
        return unknown_key(str(location[-1]), _keys_beside(model, location))
    if kind == "missing":
        return _MISSING
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"must be {words} {context[name]:g}, not {kind_of(given)}"
    if kind == "literal_error":
        near = suggestion(str(given), _words(context["expected"]))
        return f"must be {context['expected']}, not {kind_of(given)}{near}"
    if kind == "finite_number":
        return f"must be a finite number, not {kind_of(given)}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "string_pattern_mismatch":
        return f"must have {PATTERN_WORDS[context['pattern']]}, not {kind_of(given)}"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters"
    if kind == "too_short":
        return f"must have at least {context['min_length']} item{'s' if context['min_length'] > 1 else ''}"
    if kind == "value_error":
        return str(context["error"])
    return details["msg"][0].lower() + details["msg"][1:]


def unknown_key(key: str, known: list[str]) -> str:
    """The message about a key that is not one of ``known``."""
    return f"unknown key{suggestion(key, known) or '; the keys here are ' + ', '.join(known)}"


def _words(expected: str) -> list[str]:
    return [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]


def _keys_beside(model: type[BaseModel], location: Location) -> list[str]:
    """The field names of the model in which the last key of a location was searched."""
    current = model
    for part in location[:-1]:
        found = current.model_fields.get(str(part))
        if found is not None:
            current = _model_in(found.annotation) or current
    return list(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
