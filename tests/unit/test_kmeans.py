"""The k-means program: k-means, and the same to the bit every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy

from workloads.programs import kmeans


def test_an_iteration_moves_each_centroid_to_the_mean_of_its_points() -> None:
    points = kmeans.make_points(40_000, 3, 4, seed=5)
    centroids = points[:4].copy()
    moved, inertia = kmeans.step(points, centroids)
    nearest = ((points[:, None, :] - centroids[None]) ** 2).sum(axis=2).argmin(axis=1)
    expected = numpy.stack([points[nearest == cluster].mean(axis=0) for cluster in range(4)])
    numpy.testing.assert_allclose(moved, expected, rtol=1e-12)
    numpy.testing.assert_allclose(inertia, ((points - centroids[nearest]) ** 2).sum(), rtol=1e-12)
    _, later = kmeans.step(points, moved)
    assert later < inertia


def test_a_centroid_without_points_stays() -> None:
    points = numpy.zeros((10, 2))
    moved, _ = kmeans.step(points, numpy.array([[0.0, 0.0], [9.0, 9.0]]))
    assert moved.tolist() == [[0.0, 0.0], [9.0, 9.0]]


def test_two_runs_print_and_write_the_same(tmp_path: Path) -> None:
    printed = []
    for name in ("a.npy", "b.npy"):
        command = [sys.executable, kmeans.__file__, "--memory-mb", "1", "--iterations", "3", "--out", tmp_path / name]
        printed.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert printed[0] == printed[1]
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert numpy.load(tmp_path / "a.npy").shape == (10, 8)
