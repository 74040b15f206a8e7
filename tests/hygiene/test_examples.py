"""The numbers of examples stand in one file, and each is a test's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.examples import EXAMPLES

TESTS = Path(__file__).parents[1]


def test_no_other_file_says_how_many_examples_a_test_draws() -> None:
    said = {path.name for path in TESTS.rglob("*.py") if re.search(r"max_examples=(?!examples_of)", path.read_text())}
    assert said <= {Path(__file__).name}


def test_every_number_is_of_a_test_that_is_there() -> None:
    for module, numbers in EXAMPLES.items():
        (path,) = TESTS.rglob(f"{module}.py")
        body = ast.parse(path.read_text()).body
        assert set(numbers) <= {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}, module
