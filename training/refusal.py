"""A run that ends without a policy because what was learnt would not be worth serving."""

from typing import ClassVar

from canopy.domain.errors import EXIT_REFUSED, ConfigError


class TrainingRefusedError(ConfigError):
    """The configuration asks for a policy that this log cannot support."""

    exit_code: ClassVar[int] = EXIT_REFUSED
