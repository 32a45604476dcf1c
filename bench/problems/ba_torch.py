"""The bundle adjustment as one would write it in PyTorch."""

from __future__ import annotations

import torch


def objective(cameras: torch.Tensor, points: torch.Tensor, weights: torch.Tensor, camera: torch.Tensor,
              point: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Compute what `ba.objective` does."""
    errors = weights[:, None] * (project(cameras[camera], points[point]) - features)
    return 0.5 * (torch.sum(errors ** 2) + torch.sum((1.0 - weights ** 2) ** 2))


def project(camera: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the images of points, each in its camera."""
    vector, centre, focal, principal, k1, k2 = torch.split(camera, [3, 3, 1, 2, 1, 1], 1)
    inside = rotate(vector, x - centre)
    flat = inside[:, :2] / inside[:, 2:]
    square = torch.sum(flat ** 2, 1, keepdim=True)
    return flat * (1.0 + k1 * square + k2 * square ** 2) * focal + principal


def rotate(vector: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return points, each rotated about a vector by its length."""
    angle = torch.linalg.vector_norm(vector, dim=1, keepdim=True)
    axis, cosine = vector / angle, torch.cos(angle)
    along = torch.sum(axis * x, 1, keepdim=True) * (1.0 - cosine)
    return x * cosine + torch.linalg.cross(axis, x) * torch.sin(angle) + axis * along
