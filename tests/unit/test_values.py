"""What the papers print: every file reads, says where each value is measured, and says the numbers of the claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.reproduce.claims import all_claims
from analysis.reproduce.definitions import all_figures
from analysis.reproduce.tables import counts
from analysis.reproduce.values import all_values, fitted_claims, read_values, source_of
from emulator.errors import ConfigError
from emulator.files.yaml_values import dump_yaml
from tests.refusals import refused

FOLDER = Path(__file__).resolve().parents[2] / "analysis/values"
VALUE = {
    "id": "fig4.natjam.production", "where": "section 6.1", "says": "75.6 s", "published": 75.6, "scale": "s",
    "basis": "predicted", "claim": "natjam.fig4.natjam.production",
}  # fmt: skip
PAPER = {
    "paper": "natjam",
    "figures": [{"name": "Fig. 4", "shows": "techniques", "state": "reproduced", "by": "natjam/fig4"}],
    "values": [VALUE],
    "constants": [{"name": "heartbeat", "where": "5", "ours": "1 s", "source": "a guess", "feeds": [VALUE["id"]]}],
}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_reads_and_its_values_are_measured_or_say_why_not(path: Path) -> None:
    found = read_values(path)
    assert found.figures
    for value in found.printed:
        assert bool(source_of(value, all_claims(), all_figures())) != bool(value.unmeasured), value.id


def test_all_values_are_found_by_paper() -> None:
    assert set(all_values()) == {path.stem for path in FOLDER.glob("*.yaml")}
    assert all_values()["yarn"].printed


def test_claims_whose_values_were_all_known_beforehand_are_counted_apart() -> None:
    known = fitted_claims()
    assert {"natjam.fig3.alone", "flex.base.fair", "ckpt.fig12.io_bandwidth_pct"} <= known, "by claim, and by cell"
    assert "natjam.fig10.mlf_over_mdf" in known, "by its own word"
    assert not {"natjam.fig4.natjam.production", "ckpt.fig8.waste_reduction", "yarn.completion"} & known
    claims = {"natjam.fig3.alone": False, "yarn.completion": True, "yarn.preempted": False, "yarn.lost_work": None}
    assert counts(claims) == "3 claims: 1 held, 1 failed, 1 undecided; 1 more on fitted values: 0 held, 1 failed"
    assert counts({"yarn.completion": True}) == "1 claim: 1 held"


def test_what_was_not_run_is_not_called_reproduced() -> None:
    fig1, fig4, fig9 = (
        next(one for one in all_values()["natjam"].figures if one.name == name)
        for name in ("Fig. 1", "Fig. 4", "Fig. 9")
    )
    assert fig4.state_in({"natjam/fig4"}, "not run") == "reproduced"
    assert fig4.state_in({"natjam/fig5"}, "not run") == "not run"
    assert fig9.state_in({"natjam/fig9"}, "not run") == "partly"
    assert fig1.state_in({"natjam/fig4"}, "not run") == "no measurement"
    two = fig4.model_copy(update={"by": ("natjam/fig4", "natjam/fig5")})
    assert two.state_in({"natjam/fig5"}, "not run") == "not run: natjam/fig4"


def written(tmp_path: Path, **changed: Any) -> Path:
    path = tmp_path / "natjam.yaml"
    path.write_text(dump_yaml({**PAPER, **changed}))
    return path


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"claim": "natjam.fig4.natjam.prodction"}, "claim: there is no claim 'natjam.fig4.natjam.prodction'; did you"),
        ({"published": 75.7}, "published: is 75.7, but claim natjam.fig4.natjam.production has 75.6"),
        ({"part": "research"}, "no figure measures natjam.fig4.natjam.production, part 'research'"),
        ({"claim": None}, "give one of claim, cell and unmeasured"),
        ({"unmeasured": "no time"}, "give one of claim, cell and unmeasured"),
        ({"claim": None, "cell": "natjam/fig4:kill.research"}, "is 75.6, but natjam/fig4 has 236.5"),
        ({"claim": None, "cell": "natjam/fig4:killing"}, "natjam/fig4 has no cell 'killing'"),
        ({"claim": None, "cell": "natjam/fig44:kill.research"}, "there is no figure 'natjam/fig44'; did you mean"),
        ({"claim": None, "cell": "kill.research"}, "must have the figure, a colon and the cell"),
        ({"basis": "fitted"}, "a fitted value says why"),
        ({"why": "it was chosen"}, "a fitted value says why"),
        ({"published": None}, "give says, published, scale and basis"),
        ({"basis": "guessed"}, "must be 'predicted' or 'fitted'"),
    ],
)
def test_a_wrong_value_is_refused_with_file_line_and_field(
    tmp_path: Path, changed: dict[str, object], words: str
) -> None:
    path = written(tmp_path, values=[VALUE | changed])
    line, _, message = refused(read_values, path).removeprefix(f"{path}:").partition(": ")
    assert int(line) > 1
    assert message.startswith("values.0")
    assert words in message


def test_a_share_may_be_printed_in_percent_and_a_picture_has_no_number(tmp_path: Path) -> None:
    ckpt = {**VALUE, "claim": "ckpt.fig8.waste_reduction", "part": "hdd", "published": 50, "scale": "pct"}
    picture = {"id": "fig9", "where": "Fig. 9", "picture": "not available"}
    found = read_values(written(tmp_path, values=[ckpt, picture], constants=[]))
    assert [value.id for value in found.printed] == [ckpt["id"]]
    (source,) = source_of(found.values[0], all_claims(), all_figures())
    assert (source.figure, source.times) == ("adaptive-checkpointing/fig8", 100)
    with pytest.raises(ConfigError, match="is 50, but claim"):
        read_values(written(tmp_path, values=[ckpt | {"scale": "ratio"}], constants=[]))
