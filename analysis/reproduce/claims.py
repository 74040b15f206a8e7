"""Claims of papers, as data in ``analysis/claims/<paper>.yaml``: what a paper publishes, and what is accepted from a
run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from emulator.files.problems import validated
from emulator.files.strict import Strict, written_as
from emulator.files.yaml_positions import read_document

Number = Annotated[float, Field(allow_inf_nan=False)]
Published = Number | dict[str, Any] | str


class Recorded(Strict):
    """Recorded runs of another system: a JSON file in the paper's directory, by run, and the figure of a job."""

    file: Annotated[str, written_as(r"^[A-Za-z0-9._-]+$", "letters, digits and . _ -")]
    value: str

    def published(self, paper: str) -> dict[str, float]:
        """The figure of every job, by ``run.seed.job``, without those of 0, which cannot be compared."""
        runs = json.loads((claims_folder() / paper / self.file).read_text())
        return {
            f"{name}.{case['seed']}.{job['job']}": job[self.value]
            for name, run in runs.items()
            for case in run["cases"]
            for job in case["jobs"]
            if job[self.value]
        }


class Claim(Strict):
    """One result of a paper."""

    id: Annotated[str, written_as(r"^[A-Za-z0-9._-]+$", "letters, digits and . _ -")]
    engine: Literal["sim", "live", "both"]
    profile: str = "hadoop-0.23"
    published: Published | None = None
    """One figure, parts of it by name, or the paper's words."""
    recorded: Recorded | None = None
    """Instead of it: where its parts were recorded."""
    accept: Annotated[dict[str, Any], Field(min_length=1)]
    fitted: bool = False
    """Whether a workload or constant was chosen with it known, where no value of ``analysis/values`` says so."""
    note: str = ""

    def accepts_distance(self, part: str | None) -> bool:
        """Whether it asks for a part to be within a distance of the published figure."""
        return "within" in self.accept or f"{part}_within" in self.accept

    def published_of(self, part: str | None) -> float | None:
        """The published figure, or that of a part (``basic.hdd``: one inside another); None if the paper has none."""
        found: Any = self.published
        if isinstance(found, dict) and part not in found:
            for key in (part or "").split("."):
                found = found.get(key) if isinstance(found, dict) else None
        elif isinstance(found, dict):
            found = found[part]
        return float(found) if isinstance(found, int | float) else None


class ClaimFile(Strict):
    """The claims of one paper."""

    paper: str
    claims: tuple[Claim, ...]

    def with_published(self) -> Iterator[Claim]:
        """The claims, with recorded figures read."""
        for claim in self.claims:
            recorded = claim.recorded
            yield claim if recorded is None else claim.model_copy(update={"published": recorded.published(self.paper)})


@cache
def claim_files() -> tuple[ClaimFile, ...]:
    """The claims of all papers.  Raises ConfigError."""
    return tuple(validated(read_document(path), ClaimFile) for path in sorted(claims_folder().glob("*.yaml")))


@cache
def all_claims() -> dict[str, Claim]:
    """The claims of all papers, by id.  Raises ConfigError."""
    return {claim.id: claim for file in claim_files() for claim in file.with_published()}


def claims_folder() -> Path:
    """Where they are, with the figures of each paper in a directory of its name."""
    return Path(str(resources.files("analysis") / "claims"))
