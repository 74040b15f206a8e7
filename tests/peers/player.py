"""An allocation by another process that gives recorded decisions: player.py SCRIPT.json.

The script has, for each job, its stays in the cluster one after the other: when and on which nodes its tasks start,
when they are stopped and go on, and when they are taken back; and when the job is cancelled, if it is.  Of decisions
that are due at the same time those that make room come first.  One for which there is no room yet waits for the next
question.
"""

import heapq
import json
import sys
from pathlib import Path

TAKE, GIVE, CANCEL = range(3)
free, needs = {}, {}  # resources of each node, and those that each task of a job asks for
waits, held = {}, {}  # by job: what it waits for, and its containers with their nodes


def actions(plan):
    for stay in plan["stays"]:
        yield stay["start"], GIVE, stay["nodes"]
        for stopped, goes_on in stay["stops"]:
            yield stopped, TAKE, []
            yield goes_on, GIVE, stay["nodes"]
        if stay["out"] is not None:
            yield stay["out"], TAKE, []
    if plan["cancel"] is not None:
        yield plan["cancel"], CANCEL, []


def change(node, job, sign):
    for name, amount in needs[job].items():
        free[node][name] += sign * amount


def hear(news):
    match news["event"]:
        case "node-up":
            free[news["node"]] = news["resources"]
        case "job-submitted":
            needs[news["job"]], held[news["job"]] = news["groups"][0]["resources"], {}
        case "job-waits":
            waits[news["job"]] = news
        case "container-started":
            held[news["job"]][news["container"]] = news["node"]
        case "container-stopped" | "container-ended":
            if news["container"] in held[news["job"]]:
                change(held[news["job"]].pop(news["container"]), news["job"], 1)


def grants(job, nodes):
    """The grants of all tasks of the job; none as long as they do not all wait and have room."""
    asked = waits.get(job, {"new": {}, "suspended": []})
    tasks = [(each["node"], {"task": each["task"]}) for each in asked["suspended"]] or [(node, {}) for node in nodes]
    need = needs.get(job, {}).items()
    has_room = all(n * nodes.count(node) <= free[node][name] for node in nodes for name, n in need)
    if not has_room or len(tasks) != len(nodes) or len(asked["suspended"]) + asked["new"].get("pod", 0) < len(nodes):
        return
    del waits[job]
    for node, task in tasks:
        change(node, job, -1)
        yield {"decision": "grant", "job": job, "group": "pod", "node": node, **task}


def decisions(what, job, nodes):
    if what == CANCEL:
        return [{"decision": "cancel", "job": job}]
    if what == TAKE:
        first = [*held.get(job, ())][:1]
        return [{"decision": "strict-contract", "container": one, "stays_ns": script[job]["stays_ns"]} for one in first]
    return [*grants(job, nodes)]


script = json.loads(Path(sys.argv[1]).read_text())
numbered = ((job, i, action) for job, plan in script.items() for i, action in enumerate(actions(plan)))
due = [(time, what, job, i, nodes) for job, i, (time, what, nodes) in numbered]
done_of = dict.fromkeys(script, 0)  # how many of the actions of a job are done
heapq.heapify(due)
for line in sys.stdin:
    news = json.loads(line)
    hear(news) if news["event"] not in ("begin", "decide", "job-ended") else None
    if news["event"] == "decide":
        late, done = [], {"decision": "done", "question": news["question"]}
        while due and due[0][0] <= news["time_ns"]:
            action = _, what, job, number, nodes = heapq.heappop(due)
            said = decisions(what, job, nodes) if number == done_of[job] else []
            done_of[job] += bool(said)
            late += [] if said else [action]
            for decision in said:
                print(json.dumps(decision))
        if due:
            done["again_ns"] = due[0][0]
        for action in late:
            heapq.heappush(due, action)
        print(json.dumps(done), flush=True)
