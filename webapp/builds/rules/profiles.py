"""What a job may use: memory, time and processes by profile and size."""

from dataclasses import dataclass

GIB = 1024**3
MINUTE = 60
FILE_BYTES = 4 * GIB


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits of one job; `wall_s` is watched by the runner, disk and memory as a whole by the keeper, the rest by the kernel."""

    memory_bytes: int
    wall_s: int
    cpu_s: int
    nproc: int = 512
    disk_bytes: int = GIB
    """All that it may write, in all files; `FILE_BYTES` in one."""
    total_memory_bytes: int = 2 * GIB
    """All that its processes may hold in memory together; `memory_bytes` is the address space of each."""

    def as_limits(self) -> dict[str, int]:
        """Return the limits as the fork server takes them."""
        return {
            "memory_bytes": self.memory_bytes,
            "cpu_s": self.cpu_s,
            "nproc": self.nproc,
            "fsize": min(FILE_BYTES, self.disk_bytes),
            "disk_bytes": self.disk_bytes,
            "total_memory_bytes": self.total_memory_bytes,
        }


# Address space, not resident memory: Arrow, DuckDB and gRPC map far more than they touch.
_MEMORY = {"small": 6 * GIB, "medium": 12 * GIB, "large": 24 * GIB}
_TOTAL_MEMORY = {"small": 4 * GIB, "medium": 8 * GIB, "large": 16 * GIB}
_DISK = {"small": 10 * GIB, "medium": 50 * GIB, "large": 200 * GIB}
_WALL = {"small": 15 * MINUTE, "medium": 60 * MINUTE, "large": 240 * MINUTE}
PUBLISH = Allowance(memory_bytes=6 * GIB, wall_s=30, cpu_s=30)
"""Importing a repository's modules."""
INTERRUPT = Allowance(memory_bytes=6 * GIB, wall_s=20, cpu_s=20)
"""Telling the Spark server to drop a cancelled session."""


def allow(
    *,
    size: str,
    machine_bytes: int | None = None,
    wall_s: int | None = None,
    disk_bytes: int | None = None,
    total_memory_bytes: int | None = None,
) -> Allowance:
    """Return the limits of a size on a machine of so much memory; the rest overrides its own, for operators and tests."""
    wall = wall_s or _WALL.get(size, _WALL["small"])
    total_memory = _TOTAL_MEMORY.get(size, _TOTAL_MEMORY["small"])
    if machine_bytes is not None:
        total_memory = min(total_memory, machine_bytes * 3 // 4)
    return Allowance(
        memory_bytes=_MEMORY.get(size, _MEMORY["small"]),
        wall_s=wall,
        cpu_s=2 * wall,
        disk_bytes=disk_bytes or _DISK.get(size, _DISK["small"]),
        total_memory_bytes=total_memory_bytes or total_memory,
    )
