"""Settings: one schema for Python, the command line and the studio."""

import pydantic


class Config(pydantic.BaseModel):
    """Base of all settings of models and of their parts: frozen, checked, and without unknown names."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", validate_default=True)


__all__ = ["Config"]
