"""Map outputs as their tests read them."""

from __future__ import annotations

import os

from emulator.live.tasks.records import DATA_NAME, PartitionSource, Record, partition_of


def read_partition(directory: str, reduce_index: int) -> list[Record]:
    """All records of one partition of the map output in ``directory``.  Raises FileNotFoundError, IndexError if there
    is no such partition, RecordError."""
    path = os.path.join(directory, DATA_NAME)
    partition = partition_of(directory, reduce_index)
    with open(path, "rb", buffering=0) as file:
        return list(PartitionSource(path, partition, lambda size, at: os.pread(file.fileno(), size, at)))
