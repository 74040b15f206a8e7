"""Where and how a node host's tasks are saved as images: the launch parameters that say so."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from emulator.core import effects as fx
from emulator.errors import RunError
from emulator.live.dumpers.criu import CriuDumper, find_criu, why_no_criu
from emulator.live.dumpers.pages import PagesDumper
from emulator.live.hosts.plan import RunPlan
from emulator.live.tasks.imaging import ImageParameters, ImageSource
from emulator.storage.images import AT_MOST
from emulator.storage.local import job_directory_name
from emulator.storage.objects import is_object_url
from emulator.storage.places import IMAGES_DIRECTORY
from emulator.vocabulary import ProcessImage, Work, transfer_ns

_FIRST_PID = 300
_PIDS_A_SUPERVISOR = 4000


class NodeImages:
    """The images of one node host, in a run whose mechanism may save images."""

    def __init__(self, name: str, plan: RunPlan, work_dir: Path, output: Path) -> None:
        """``output``: where the tasks of this host write to."""
        self.dumper = ""
        self._criu = ""
        self._plan = plan
        assert plan.settings.tier is not None
        self._tier = plan.settings.tier
        self._work_dir = work_dir
        self._output = output
        self._started = 0
        hosts = list(plan.node_hosts)
        self._host, self._hosts = hosts.index(name), len(hosts)

    def choose_dumper(self) -> None:
        """Choose the dumper that the experiment names, or else criu if it works.

        Raises:
            RunError: the experiment demands criu, which does not work here.
        """
        wanted = self._plan.dumper
        found = None if wanted == PagesDumper.name else find_criu()
        if found is not None and found.problem is None:
            self.dumper, self._criu = CriuDumper.name, found.path
            return
        if wanted == CriuDumper.name:
            raise RunError(
                f"images by criu cannot be made: {why_no_criu()}; natjam's own tasks can be saved by 'dumper: pages'"
            )
        self.dumper = PagesDumper.name

    def first_pid(self) -> int | None:
        """The first process id for the next supervisor, distinct from ids of other hosts and earlier supervisors;
        None: it needs no namespace of its own."""
        if self.dumper != CriuDumper.name:
            return None
        most = int(Path("/proc/sys/kernel/pid_max").read_text()) - _FIRST_PID
        share = most // self._hosts
        start = self._started * _PIDS_A_SUPERVISOR % share
        self._started += 1
        return _FIRST_PID + self._host * share + start

    def parameters(self, node: str, launch: fx.Launch) -> dict[str, Any]:
        """Launch parameters of a task: where its images go, and the image it resumes from."""
        scale, tier = self._plan.time_scale, self._tier
        bytes_scale = scale * self._plan.memory_scale
        dumper = PagesDumper.name if launch.work is Work.SHUFFLE else self.dumper  # a map's files are its node's own
        if dumper == PagesDumper.name and self._plan.jobs[launch.job].program is not None:
            return {}  # a program has no counters to start from
        images = ImageParameters(
            dumper=dumper,
            criu=self._criu,
            folder=str(self._of_job(node, launch.job) / f"{launch.group}-{launch.task:05d}"),
            staging=str(self._work_dir / node / "staging"),
            at_most=AT_MOST if tier.incremental else 1,
            device=str(self._work_dir / node / "device"),
            at_once=tier.at_once,
            write_bytes_real_s=math.ceil(tier.write_bytes_s * bytes_scale) if tier.held else 0,
            read_bytes_real_s=math.ceil(tier.read_bytes_s * bytes_scale) if tier.held else 0,
            latency_real_ns=round(tier.latency_ns / scale),
        )
        saved = launch.saved
        source = asdict(self._source(node, saved, images.folder)) if isinstance(saved, ProcessImage) else None
        return {"images": asdict(images), "restore": source}

    def _source(self, node: str, image: ProcessImage, own_folder: str) -> ImageSource:
        folder, _, number = image.location.rpartition("/")
        if is_object_url(self._plan.output):
            folder = own_folder  # it comes from the store
        network_bytes_s = self._tier.network_bytes_s
        if network_bytes_s is None:
            network_bytes_s = math.ceil(self._plan.network_bytes_s)
        is_here = image.node == node or not self._tier.held
        brought_ns = 0 if is_here else transfer_ns(image.size_bytes, network_bytes_s)
        brought_real_ns = time.monotonic_ns() + round(brought_ns / self._plan.time_scale)
        return ImageSource(folder, int(number), image.checksum, brought_real_ns)

    def image(self, process: fx.Launch, node: str, event: Mapping[str, Any]) -> ProcessImage:
        """The image described by a supervisor's event, in emulated bytes."""
        before = process.saved.past_containers if process.saved else ()
        scale = self._plan.memory_scale
        return ProcessImage(
            (*before, event["id"]),
            event["keys_done"],
            f"{event['folder']}/{event['number']}",
            node,
            round(event["memory_bytes"] / scale),
            event["checksum"],
            event["in_key_ns"],
            round(event["written_bytes"] / scale),
            whole=not event["incremental"],
        )

    def clean_up(self, node: str, job: str) -> None:
        """Remove the images of a job that has ended."""
        shutil.rmtree(self._of_job(node, job), ignore_errors=True)

    def _of_job(self, node: str, job: str) -> Path:
        root = (
            self._output / IMAGES_DIRECTORY if self._plan.keeps_images_in_output else self._work_dir / node / "images"
        )
        return root / job_directory_name(job)
