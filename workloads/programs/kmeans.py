"""k-means, the program that adaptive-checkpointing preempts (sections 3.3.3 and 5.3); its results are reproducible.

    python workloads/programs/kmeans.py --memory-mb 200 --iterations 50 --out centroids.npy

Every iteration assigns each point to its nearest centroid and moves the centroids to the means of their points; empty
clusters do not move.  All sums are made in one order, without threads or a linear algebra library.  So the centroids
after a number of iterations depend only on the arguments: they must be equal to the bit, however often the process was
stopped, saved and restored.  Prints number and inertia of each iteration, and at the end the hash of the centroids.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from pathlib import Path

import numpy

_BLOCK_POINTS = 1 << 14


def make_points(count: int, dimensions: int, clusters: int, seed: int) -> numpy.ndarray:
    """Points around as many centres as there are clusters."""
    random = numpy.random.default_rng(seed)
    centres = random.uniform(-10, 10, (clusters, dimensions))
    points = numpy.empty((count, dimensions))
    for first in range(0, count, _BLOCK_POINTS):  # in pieces, so that this needs no more memory than the points
        block = points[first : first + _BLOCK_POINTS]
        random.standard_normal(out=block)
        block += centres[random.integers(clusters, size=len(block))]
    return points


def step(points: numpy.ndarray, centroids: numpy.ndarray) -> tuple[numpy.ndarray, float]:
    """One iteration: the new centroids, and the sum of the squared distances to the old ones."""
    clusters, dimensions = centroids.shape
    sums, counts, inertia = numpy.zeros((clusters, dimensions)), numpy.zeros(clusters), 0.0
    for first in range(0, len(points), _BLOCK_POINTS):
        block = points[first : first + _BLOCK_POINTS]
        distances = numpy.stack([((block - centroid) ** 2).sum(axis=1) for centroid in centroids])
        nearest = distances.argmin(axis=0)
        inertia += float(distances.min(axis=0).sum())
        counts += numpy.bincount(nearest, minlength=clusters)
        for dimension in range(dimensions):
            sums[:, dimension] += numpy.bincount(nearest, block[:, dimension], clusters)
    filled = counts > 0
    moved = centroids.copy()
    moved[filled] = sums[filled] / counts[filled, None]
    return moved, inertia


def main() -> int:
    """Run k-means; see the module's docstring."""
    parser = argparse.ArgumentParser(description="k-means on seeded points")
    parser.add_argument("--memory-mb", type=float, default=50.0, help="size of the points, in 10^6 bytes")
    parser.add_argument("--dimensions", type=int, default=8)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iteration-s", type=float, default=0.0, help="least time of an iteration")
    parser.add_argument("--out", type=Path, help="write the centroids to this .npy file")
    arguments = parser.parse_args()
    count = int(arguments.memory_mb * 1e6) // (8 * arguments.dimensions)
    if count < arguments.clusters or min(arguments.dimensions, arguments.clusters) < 1:
        parser.error(f"{count} points of {arguments.dimensions} dimensions for {arguments.clusters} clusters")
    points = make_points(count, arguments.dimensions, arguments.clusters, arguments.seed)
    centroids = points[: arguments.clusters].copy()
    for iteration in range(arguments.iterations):
        began_s = time.monotonic()
        centroids, inertia = step(points, centroids)
        time.sleep(max(0.0, began_s + arguments.iteration_s - time.monotonic()))
        print(iteration, repr(inertia), flush=True)
    print(hashlib.sha256(centroids.tobytes()).hexdigest(), flush=True)
    if arguments.out is not None:
        unfinished = arguments.out.with_name(arguments.out.name + ".unfinished")
        with open(unfinished, "wb") as file:
            numpy.save(file, centroids)
        os.replace(unfinished, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
