"""The figures that are drawn by a function of their paper's module."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from analysis.papers import adaptive_checkpointing, flex, natjam, os_assisted, reverse_adaptive, slurm
from analysis.reproduce.reproduced import Reproduced, Reproduction

_BY_JOB = ("fig7", "fig8", "fig9", "fig12", "fig13", "fig14", "fig15")

DRAWINGS: Mapping[str, Callable[[Reproduced, Reproduction], Figure]] = {
    **{f"natjam/{name}": natjam.by_job for name in _BY_JOB},
    "natjam/fig10": natjam.fig10,
    "natjam/fig11": natjam.fig11,
    "os-assisted/mechanisms": os_assisted.mechanisms,
    "os-assisted/fig4": os_assisted.overheads,
    "os-assisted/fig4-program": os_assisted.overheads,
    "flex/fig4": flex.fig4,
    **dict.fromkeys(("flex/fig5a", "flex/fig5b", "flex/fig5c", "flex/base", "flex/large"), flex.over_the_best),
    "reverse-adaptive/fig1": reverse_adaptive.holders,
    "reverse-adaptive/fig3": reverse_adaptive.fit_steps,
    "reverse-adaptive/fills": reverse_adaptive.fills,
    "slurm/recorded": slurm.recorded,
    "adaptive-checkpointing/fig9": adaptive_checkpointing.response_times,
    "adaptive-checkpointing/fig11": adaptive_checkpointing.response_times,
}
"""By the figure's id."""
