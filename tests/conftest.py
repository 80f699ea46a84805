"""Where the real data is, for the tests that read it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("law", deadline=None)  # a busy machine is no counterexample
settings.load_profile("law")

BESIDE = Path(__file__).parents[2] / "shared" / "data"  # where a checkout may have it beside itself


@pytest.fixture(scope="session")
def real_data() -> Path:
    """IGFL_DATA_DIR, with complete copies of CIFAR-10 and MNIST in it."""
    folder = Path(os.environ.get("IGFL_DATA_DIR") or BESIDE)
    if not (folder / "cifar-10-batches-bin" / "data_batch_1.bin").is_file():
        pytest.skip(f"no real data: set IGFL_DATA_DIR to a folder with CIFAR-10 and MNIST (looked in {folder})")
    return folder
