"""Settings: environment over config file over defaults, frozen once read.

Each value remembers where it came from, so that `canopy settings show` can say so.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from canopy.domain.errors import SettingError

ENV_PREFIX: Final = "CANOPY_"
CONFIG_NAME: Final = "config.yaml"


class Settings(BaseModel):
    """Everything an installation may choose.

    Attributes:
        home: Folder of everything Canopy writes: servers' data, runs, artifacts.
        database_url: Postgres to use; None starts the embedded one.
        redis_url: Redis to use; None starts the embedded one.
        mlflow_url: MLflow tracking address; None uses a database on the same Postgres.
        http_host: Address the HTTP process binds to; loopback unless told.
        http_port: Port of the HTTP process; 0 picks a free one and writes it to `home`.
        pointer_poll_s: Seconds between two looks at the active policy pointers.
        require_keys: Whether every caller must present a key; None: unless bound to loopback.
            A key that is presented is always checked.
        tenant_rate_per_s: Most selections, outcomes and corrections of one tenant per second
            that one HTTP process takes; None without a limit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = Path(".canopy")
    database_url: str | None = None
    redis_url: str | None = None
    mlflow_url: str | None = None
    http_host: str = "127.0.0.1"
    http_port: int = Field(default=0, ge=0, le=65535)
    pointer_poll_s: float = Field(default=0.5, gt=0)
    require_keys: bool | None = None
    tenant_rate_per_s: float | None = Field(default=None, gt=0)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings and the source of each: `environment`, a file's path, or `default`."""

    settings: Settings
    sources: Mapping[str, str]


def load_settings(
    config: Path | None = None, environment: Mapping[str, str] | None = None
) -> LoadedSettings:
    """Read the settings of this process.

    Args:
        config: The config file; None takes `config.yaml` in the home folder, if it exists.
        environment: Variables to read; None takes the process's own.

    Returns:
        The settings with `home` made absolute, and where each value came from.

    Raises:
        SettingError: If a name is unknown, a value is malformed, or `config` is not there.
    """
    variables = os.environ if environment is None else environment
    from_env = {
        name: variables[ENV_PREFIX + name.upper()]
        for name in Settings.model_fields
        if ENV_PREFIX + name.upper() in variables
    }
    path = config or Path(from_env.get("home", ".canopy")) / CONFIG_NAME
    from_file = _read_config(path, required=config is not None)
    _refuse_secrets(path, from_file)
    try:
        settings = Settings.model_validate(from_file | from_env)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        place = ENV_PREFIX + name.upper() if name in from_env else f"{path}: {name}"
        known = ", ".join(Settings.model_fields)
        raise SettingError(place, f"{first['msg']}.", f"Known settings: {known}.") from error
    settings = settings.model_copy(update={"home": settings.home.absolute()})
    sources = {
        name: "environment" if name in from_env else str(path) if name in from_file else "default"
        for name in Settings.model_fields
    }
    return LoadedSettings(settings, sources)


def _refuse_secrets(path: Path, content: Mapping[str, Any]) -> None:
    # A config file may name servers, never hold a password: files get copied and committed.
    for name, value in content.items():
        if isinstance(value, str) and "://" in value and urlsplit(value).password is not None:
            variable = ENV_PREFIX + str(name).upper()
            raise SettingError(
                f"{path}: {name}", "holds a password.", f"Put it in the environment: {variable}."
            )


def _read_config(path: Path, *, required: bool) -> dict[str, Any]:
    if not path.exists():
        if required:
            raise SettingError(str(path), "there is no such file.", "Name an existing file.")
        return {}
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise SettingError(str(path), f"not YAML: {error}.", "Correct the file.") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingError(str(path), "expected a mapping of settings.", "Write `name: value`.")
    return content
