"""Looking at runs from Python: python docs/look_at_runs.py RUN OTHER_RUN DIRECTORY_FOR_FIGURES

RUN and OTHER_RUN are what `natjam run --out` left (with `--repeats`, the directory above the repeats).  The page that
`natjam report RUN OTHER_RUN` writes has distributions of completions and overheads, and the containers at work over
time.  In a notebook three lines do:

    from analysis.load import load
    jobs = load("runs/fig4", "runs/fig4-kill").jobs
    jobs.groupby(["run", "queue"])["completion_s"].describe()
"""

import sys
from pathlib import Path

from analysis import metrics, statistics
from analysis.figures import runs as figures
from analysis.figures.style import save
from analysis.load import load

run, other_run, directory = sys.argv[1:]

# %% Frames: one row a run, a job, a task, an attempt, a suspension, a measured overhead.
results = load(run, other_run)
print(
    results.runs[["run", "repeat", "mechanism", "makespan_s", "utilization", "wasted_fraction"]].to_string(index=False)
)

# %% Metrics of every job, then of every queue.
containers = results.runs.set_index(metrics.RUN)["containers"]
jobs = metrics.job_metrics(results.jobs, results.tasks, containers)
columns = ["run", "repeat", "queue", "jobs", "completion_mean_s", "completion_p95_s", "stretch_mean", "lost_work_s"]
print(metrics.queue_metrics(jobs)[columns].to_string(index=False))
print("fairness (Jain's index of the jobs' speeds):", metrics.fairness(jobs).round(3).to_dict())

# %% Paired by job: how much sooner is the first run?
a, b = results.runs["run"].unique()
pairs = statistics.pair_jobs(jobs[jobs["run"] == a], jobs[jobs["run"] == b])
difference = statistics.compare_pairs(pairs["difference"], pairs["repeat"])
print(f"{a} minus {b}: mean {difference.spread.mean:.1f} s, sooner for {difference.a_lower:.0%} of {len(pairs)} jobs")

# %% Figures are matplotlib's; style.save writes what the suffix says.
target = Path(directory)
target.mkdir(parents=True, exist_ok=True)
save(figures.differences(pairs, a, b), [target / "differences.png", target / "differences.svg"])
