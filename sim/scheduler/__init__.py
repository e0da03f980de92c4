"""Schedulers: which queued jobs start now."""

from __future__ import annotations

from sim.scheduler.fifo import Fifo

__all__ = ["SCHEDULERS", "Fifo"]

SCHEDULERS = {"fifo": Fifo}
