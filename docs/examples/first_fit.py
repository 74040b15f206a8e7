"""An allocation for natjam by another process: first fit by priority, with preemption.  It needs nothing but Python.

It reads one JSON object a line, and answers each "decide" with decisions and "done" (see docs/outside.md).  Jobs of
higher priority go first.  If one finds no free container, it takes the newest of the job of the lowest priority.
"""

import json
import sys

size = {}  # containers of each node
priority = {}  # of each job
waits = {}  # how many containers each job waits for
running = {}  # container: (job, group, node), in the order in which they were started
leaving = set()  # containers that were asked back
victims = {}  # of each job, the groups whose tasks may be asked back


def hear(news):
    match news["event"]:
        case "node-up":
            size[news["node"]] = news["containers"]
        case "node-lost":
            del size[news["node"]]
        case "job-submitted":
            priority[news["job"]] = news["priority"]
            victims[news["job"]] = [group["group"] for group in news["groups"] if group["may_be_victim"]]
        case "job-waits":
            waits[news["job"]] = news["am"] + sum(news["new"].values()) + len(news["suspended"])
        case "job-ended":
            waits.pop(news["job"], None)
        case "container-started":
            running[news["container"]] = news["job"], news["group"], news["node"]
        case "container-stopped" | "container-ended":
            running.pop(news["container"], None)
            leaving.discard(news["container"])


def decide():
    taken = [node for _, _, node in running.values()]
    free = [node for node in size for _ in range(size[node] - taken.count(node))]
    coming = len(leaving)
    for job in sorted(waits, key=lambda job: priority[job], reverse=True):
        for _ in range(waits[job]):
            may_go = [c for c, (other, group, _) in running.items() if other in waits and group in victims[other]]
            lower = [c for c in reversed(may_go) if c not in leaving and priority[running[c][0]] < priority[job]]
            if free:
                yield {"decision": "grant", "job": job, "node": free.pop(0)}
            elif coming:
                coming -= 1
            elif lower:
                victim = min(lower, key=lambda container: priority[running[container][0]])
                leaving.add(victim)
                yield {"decision": "strict-contract", "container": victim}


for news in map(json.loads, sys.stdin):
    hear(news)
    if news["event"] == "decide":
        for decision in [*decide(), {"decision": "done", "question": news["question"]}]:
            print(json.dumps(decision), flush=True)
