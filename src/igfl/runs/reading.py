"""A configuration from YAML files and the command line, and every refusal in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from igfl.runs.config import DEFAULT_METHOD, Config, ConfigError, hint


def load(path: Path | None, overrides: Sequence[str] = (), base: Mapping[str, Any] | None = None) -> Config:
    """A configuration from a YAML file, or the defaults, with `section.key=value` on top."""
    content: dict[str, Any] = dict(base or {})
    if path is not None:
        try:
            read = yaml.safe_load(path.read_text())
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
        if read is not None and not isinstance(read, dict):
            raise ConfigError(f"{path}: a configuration is keys and values, this is {type(read).__name__}")
        content |= _numbers(read or {})
    for text in overrides:
        _put_text(content, text)
    return checked(content)


def checked(content: Mapping[str, Any]) -> Config:
    """The configuration of these keys and values."""
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_told(error.errors()[0])) from None


def _put_text(content: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"{text!r}: give options as key=value, as in train.lr=0.1")
    put(content, key, parsed(key, value))


def parsed(key: str, value: str) -> Any:
    """A value as it stands on the command line."""
    try:
        return _numbers(yaml.safe_load(value))
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}={value}: not a YAML value") from error


def put(content: dict[str, Any], key: str, value: Any) -> None:
    """section.key = value, the sections above it made where they are not there."""
    *sections, last = key.split(".")
    if sections == ["method"] and last != "name":
        content.setdefault("method", DEFAULT_METHOD)
    place = content
    for section in sections:
        inner = place.get(section, {})
        inner = {"name": inner} if isinstance(inner, str) else inner
        if not isinstance(inner, dict):
            raise ConfigError(f"{key}: {section} is one value and has no keys below it")
        place[section] = place = dict(inner)
    place[last] = value


def _numbers(value: Any) -> Any:
    """YAML reads 1e-3 as a word: what is a number is one, however deep it stands."""
    if isinstance(value, dict):
        return {key: _numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_numbers(inner) for inner in value]
    try:
        return float(value) if isinstance(value, str) and not math.isnan(float(value)) else value
    except ValueError:
        return value


def _told(error: ErrorDetails) -> str:
    """pydantic's first complaint, as the user reads it."""
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key, {hint(str(error['loc'][-1]), _keys(error['loc'][:-1]))}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    value = error["input"]
    if error["type"] == "literal_error":
        known = [word.strip("' ") for word in str(error["ctx"]["expected"]).replace(" or ", ", ").split(",")]
        return f"{where}={value!r}: {hint(str(value), known)}"
    shown = f"{where}={value!r}" if not isinstance(value, dict) else where
    return f"{shown}: {error['msg'][0].lower()}{error['msg'][1:]}"


def _keys(loc: Sequence[int | str]) -> list[str]:
    """The keys there are at a place."""
    model: Any = Config
    for part in loc:
        model = model.model_fields[str(part)].annotation
    return list(model.model_fields)
