"""What a service is to a program: a state with its health counted in, and a restart that is ok only when it is well."""

from guideway.interpreter.drivers.base import Observation, Probe, ServiceDriver


class Service:
    """A service of the inventory: a driver, a health check, and one lock for its mutations."""

    def __init__(
        self, name: str, driver: ServiceDriver, *, health: Probe | None = None, restartable: bool = True
    ) -> None:
        self.name = name
        self.restartable = restartable
        self._driver = driver
        self._health = health

    async def state(self) -> Observation:
        """Return the state now; ``degraded`` where it runs and its health check fails. Raises ``Fault``."""
        raise NotImplementedError

    async def settled(self) -> Observation:
        """Return the state once it is neither starting nor stopping. The caller sets the deadline. Raises ``Fault``."""
        raise NotImplementedError

    async def restart(self, deadline: float) -> Observation:
        """Restart, and return once a new instance is seen healthy.

        Raises ``Fault`` at the latest after ``deadline`` seconds.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Give back what the driver holds."""
        await self._driver.close()
