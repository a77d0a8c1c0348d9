"""How much a child process may take: what it gets where nobody says more, and what nobody can raise."""

from dataclasses import dataclass, fields

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a child and all that it starts may take.

    ``memory_mb`` and ``cpu_seconds`` hold for each of its processes; where there is a cgroup, memory holds for all of
    them together. ``output_bytes`` is what is kept of standard output, and as much of standard error: their ends.
    Raises ``ValueError`` for more than ``MOST`` has, or less than a process needs.
    """

    seconds: float = 10.0
    cpu_seconds: int = 10
    memory_mb: int = 512
    processes: int = 32
    open_files: int = 128
    output_bytes: int = 16_384
    file_mb: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            least, most = LEAST[field.name], MOST[field.name]
            if not least <= getattr(self, field.name) <= most:
                raise ValueError(f"`{field.name}` must be from {least:g} to {most:g}")


LEAST: dict[str, float] = {
    "seconds": 0.1,
    "cpu_seconds": 1,
    "memory_mb": 32,
    "processes": 1,
    "open_files": 16,
    "output_bytes": 256,
    "file_mb": 0,
}
#: The upper ends. They stand here and nowhere else, so that no configuration can move them.
MOST: dict[str, float] = {
    "seconds": 300,
    "cpu_seconds": 300,
    "memory_mb": 8192,
    "processes": 256,
    "open_files": 1024,
    "output_bytes": 65_536,
    "file_mb": 1024,
}
