"""The rows of a timeline: processes and threads for jobs, groups of replicas, domains and nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim import Prepared, Result

__all__ = ["Tracks"]


class Tracks:
    """Numbers and names of the rows that a replication needs; the cluster first, then jobs, then domains of nodes.

    Numbers of threads are unique over all processes, and zero is never used: some viewers take it for the idle thread.
    """

    def __init__(self, prepared: Prepared, result: Result) -> None:
        assert result.timeline is not None, "a result with its timeline"
        self.processes: list[str] = []
        self.threads: list[tuple[int, str]] = []
        self.cluster = self._thread(self._process("cluster"), "events")
        """The row of what belongs to no job."""
        self._groups: dict[tuple[int, int], dict[str, int]] = {}
        self._nodes: dict[int, dict[str, int]] = {}
        for index, plan in enumerate(prepared.jobs):
            pid = self._process(f"job {plan.name}")
            self._groups[index, 0] = self._thread(pid, "in step" if plan.replicas > 1 else "all nodes")
            for group in sorted({span.group for span in result.timeline.spans if span.job == index and span.group}):
                self._groups[index, group] = self._thread(pid, f"replica {group - 1} away")
        self._add_nodes(prepared, sorted({outage.node for outage in result.outages}))

    def of_group(self, job: int, group: int) -> dict[str, int]:
        """Return the row of a group of replicas."""
        return self._groups[job, group]

    def of_node(self, node: int) -> dict[str, int]:
        """Return the row of a node."""
        return self._nodes[node]

    def metadata(self) -> list[dict[str, Any]]:
        """Return the events that name the rows and put them in order."""
        found = []
        for pid, name in enumerate(self.processes, start=1):
            found += _named("process", pid, {}, name, pid)
        for tid, (pid, name) in enumerate(self.threads, start=1):
            found += _named("thread", pid, {"tid": tid}, name, tid)
        return found

    def _add_nodes(self, prepared: Prepared, nodes: list[int]) -> None:
        """Add the nodes by the domain that holds them: a scale-up domain of several nodes, else a rack."""
        cluster: Any = prepared.scenario.cluster
        kind, label = ("scale_up", "scale-up domain") if cluster.nodes_per_domain > 1 else ("rack", "rack")
        domains = cluster.build().domains[kind]
        pids: dict[int, int] = {}
        for node in nodes:
            domain = int(domains[node])
            if domain not in pids:
                pids[domain] = self._process(f"{label} {domain}")
            self._nodes[node] = self._thread(pids[domain], f"node {node}")

    def _process(self, name: str) -> int:
        self.processes.append(name)
        return len(self.processes)

    def _thread(self, pid: int, name: str) -> dict[str, int]:
        self.threads.append((pid, name))
        return {"pid": pid, "tid": len(self.threads)}


def _named(what: str, pid: int, thread: dict[str, int], name: str, place: int) -> list[dict[str, Any]]:
    """Return the two events that name a row and say where it stands."""
    row = {"ph": "M", "ts": 0, "pid": pid, **thread}
    return [
        {"name": f"{what}_name", **row, "args": {"name": name}},
        {"name": f"{what}_sort_index", **row, "args": {"sort_index": place}},
    ]
