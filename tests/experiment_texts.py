"""Texts of experiment files, whole and broken; they need nothing of natjam."""

from __future__ import annotations

VALID = """\
name: fig4
time_scale: 20
seed: 1
overheads: hadoop-0.23
cluster: {nodes: 6, containers_per_node: 8, container_memory_gb: 1, memory_gb: 16}
scheduler:
  allocation:
    name: two-queue
    queues:
      production: {capacity: 0.25, maximum: 1.0}
      research: {capacity: 0.75, maximum: 1.0}
  job_eviction: mr
  task_eviction: srt
  mechanism: checkpoint
  placement: {name: prefer-local, delay_s: 0}
workload:
  jobs:
    - {name: research-XL, queue: research, submit_s: 0, maps: 4, map_s: 1.0, reduces: 47,
       reduce_s: {uniform: [0.5, 1.0], longest: 182.7}, key_s: 1.0}
    - {name: production-S, queue: production, submit_s: 50, maps: 4, map_s: 1.0, reduces: 11,
       reduce_s: [60.8, 30]}
"""


TURNS = """\
name: turns
engine: sim
overheads: yarn-3
cluster: {nodes: 1, containers_per_node: 4}
scheduler:
  allocation: {name: single-queue, queues: {all: {capacity: 1.0}}}
  job_eviction: mlf
  mechanism: kill
workload:
  jobs:
    - {name: one, queue: all, maps: 2, map_s: 1, reduces: 4, reduce_s: [100], key_s: 1, deadline_s: 300}
    - {name: two, queue: all, submit_s: 5, maps: 2, map_s: 1, reduces: 4, reduce_s: [100], key_s: 1, deadline_s: 300}
"""
"""Under MLF jobs take turns (natjam, section 4); here each turn kills the other's reduces."""
TURNS_OF_ONE = TURNS.replace("containers_per_node: 4", "containers_per_node: 3").replace("reduces: 4", "reduces: 1")
"""The same with one reduce each, for one container: the end comes after a quarter of the kills."""


REFUSED_CHANGES: tuple[tuple[str, str, str, int, list[str]], ...] = (
    ("unknown key", "nodes: 6", "nodez: 6", 5, ["cluster.nodez", "did you mean 'nodes'"]),
    ("nothing near", "seed: 1", "colour: 1", 3, ["colour: unknown key", "time_scale"]),
    ("unknown key of a job", "maps: 4", "mapps: 4", 18, ["workload.jobs.0.mapps", "'maps'"]),
    ("wrong type", "seed: 1", "seed: one", 3, ["seed", "a whole number", "'one'"]),
    ("fraction", "seed: 1", "seed: 1.5", 3, ["seed", "a whole number"]),
    ("boolean for a number", "seed: 1", "seed: true", 3, ["seed", "a whole number"]),
    ("text for a number", "time_scale: 20", "time_scale: '20'", 2, ["a number", "'20'"]),
    ("not a number", "time_scale: 20", "time_scale: .nan", 2, ["time_scale"]),
    ("infinite", "time_scale: 20", "time_scale: .inf", 2, ["time_scale"]),
    ("zero", "time_scale: 20", "time_scale: 0", 2, ["time_scale", "at least 1e-06"]),
    ("nearly zero", "time_scale: 20", "time_scale: 1e-300", 2, ["time_scale", "at least 1e-06"]),
    ("no nanosecond", "time_scale: 20", "heartbeat_s: 1e-12", 2, ["heartbeat_s", "at least 1e-09"]),
    ("name that is a path", "name: fig4", "name: a/b", 1, ["name"]),
    ("negative time", "submit_s: 50", "submit_s: -50", 20, ["jobs.1.submit_s", "at least 0"]),
    ("negative delay", "delay_s: 0", "delay_s: -1", 15, ["placement.delay_s", "at least 0"]),
    ("wrong item", "[60.8, 30]", "[60.8, x]", 21, ["jobs.1.reduce_s.1", "'x'"]),
    ("no kind of length", "[60.8, 30]", "long", 21, ["a number or a list or a mapping"]),
    ("negative length", "longest: 182.7", "longest: -1", 19, ["reduce_s.longest", "must be at least"]),
    ("missing key", "{nodes: 6,", "{", 5, ["cluster.nodes", "is missing"]),
    ("capacities over 1", "capacity: 0.75", "capacity: 0.8", 9, ["add up to 1.05"]),
    ("maximum", "capacity: 0.25, maximum: 1.0", "capacity: 0.25, maximum: 0.2", 10, ["above the queue's maximum"]),
    ("capacity over 1", "capacity: 0.75", "capacity: 1.75", 11, ["research.capacity", "at most 1"]),
    ("queue", "queue: production,", "queue: producton,", 20, ["no queue 'producton'", "'production'"]),
    ("duplicate job", "name: production-S", "name: research-XL", 20, ["jobs.1.name", "jobs.0"]),
    ("job name that is a path", "name: production-S", "name: ..", 20, ["jobs.1.name", "'.'"]),
    ("policy", "job_eviction: mr", "job_eviction: mrr", 12, ["no job eviction 'mrr'", "'mr'"]),
    ("own policy", "task_eviction: srt", "task_eviction: nobodys:f", 13, ["'nobodys:f'", "imported"]),
    ("no function", "task_eviction: srt", "task_eviction: math:f", 13, ["has no function 'f'"]),
    ("image", "mechanism: checkpoint", "mechanism: image", 14, ["storage.tier"]),
    (
        "inconsistent",
        "job_eviction: mr",
        "job_eviction: mdf\n  job_selection: llf",
        13,
        ["scheduler.job_selection", "auto or edf", "allow_inconsistent"],
    ),
    ("single queue of two", "two-queue", "single-queue", 9, ["single-queue needs one queue"]),
    ("soft-cap preempting", "two-queue", "soft-cap", 14, ["soft-cap never preempts", "wait"]),
    ("overheads", "hadoop-0.23", "hadop-0.23", 4, ["overheads", "did you mean 'hadoop-0.23'"]),
    ("overheads file", "hadoop-0.23", "./none.yaml", 4, ["overheads", "no such file"]),
    ("memory", "memory_gb: 16", "memory_gb: 4", 5, ["8 containers of 1 GB need 8"]),
    ("one container", "25, maximum: 1.0", "01, maximum: 0.02", 20, ["the master takes one"]),
    ("task memory", "submit_s: 50", "memory_mb: 2048", 20, ["do not fit a container of 1 GB"]),
    ("store", "seed: 1", "storage: {url: 'ftp://a'}", 3, ["storage.url", "write a path, s3://"]),
    ("hdfs", "seed: 1", "storage: {url: 'hdfs://a:1/b'}", 3, ["'hdfs://'", "webhdfs://namenode"]),
    ("port", "seed: 1", "storage: {url: 'webhdfs://a:b/c'}", 3, ["storage.url", "Port"]),
    ("no bucket", "seed: 1", "storage: {url: 's3:///'}", 3, ["storage.url", "names no store"]),
    ("slots", "{nodes: 6,", "{nodes: 6, slots: {map: 1},", 5, ["slots.reduce", "is missing"]),
    ("racks", "{nodes: 6,", "{nodes: 6, racks: 0,", 5, ["racks", "must be at least 1"]),
    ("duplicate key", "seed: 1", "time_scale: 1", 3, ["time_scale", "given twice"]),
    ("malformed", "seed: 1", "seed: [1", 4, ["not valid YAML"]),
    ("foreign tag", "seed: 1", "seed: !!python/name:os.system x", 3, ["not supported"]),
    ("alias to itself", "seed: 1", "seed: &a [*a]", 3, ["inside the value"]),
    ("list for a key", "seed: 1", "[a, b]: 1", 3, ["a key must be a plain word"]),
)
"""What is wrong, a part of ``VALID``, what is written in its place, and the line and words of the message."""

NO_EXPERIMENTS: tuple[tuple[bytes, str], ...] = (
    (b"", "empty"),
    (b"# nothing\n", "empty"),
    (b"- a\n- b\n", "must be a mapping"),
    (b"just text", "must be a mapping"),
    (b"\x00\x01\x02\xff", "not UTF-8"),
    (b"\x7fELF\x02\x01\x01\x00", "not valid YAML"),
    (b"a: 1\n---\nb: 2\n", "not valid YAML"),
    (b"[" * 5000, "too deeply"),
    (
        b"a: &a [x, x]\n" + b"".join(b"b%d: &%c [*%c, *%c]\n" % (i, i, i - 1, i - 1) for i in range(98, 123)),
        "aliases",
    ),
)
"""Contents of files, and a word of the message."""
