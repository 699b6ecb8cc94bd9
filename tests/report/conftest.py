"""One small collection taken through all four real stages, W&B offline; and a real browser."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import COLLECTION, TGRAPH
from tests.stages import TINY_VARIABLES, make
from tests.synthetic import write_collection

FOLDER = f"{TGRAPH}+trial"
VARIABLES = {"FOLDS": 2, "EPOCHS": 3, "TTA": 2, **TINY_VARIABLES}


@dataclass(frozen=True)
class Finished:
    """A finished `make all`.

    Attributes:
        outputs: where results went, W&B's runs among them.
        folder: the collection's.
        said: what make and the stages printed.
    """

    data: Path
    outputs: Path
    folder: Path
    said: str

    @property
    def cache(self) -> Path:
        """The collection's, of pruned graphs."""
        return self.outputs / COLLECTION / "cache"

    def make(self, *targets: str, **variables: object) -> str:
        """Make something else of the same collection."""
        given = {"DATA": self.data, "OUTPUTS": self.outputs, **VARIABLES, **variables}
        return make(*targets, EXPERIMENT="trial", **given)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Finished:
    """`make all` of six, two and two synthetic graphs; tests must not change it."""
    root = tmp_path_factory.mktemp("finished")
    write_collection(root / "data", COLLECTION, train=6, valid=2, test=2)
    said = make(
        "all",
        environ={"WANDB_MODE": "offline", "HOME": str(root)},
        EXPERIMENT="trial",
        DATA=root / "data",
        OUTPUTS=root / "outputs",
        JOBS=1,  # processes of joblib would import for a second
        **VARIABLES,
    )
    return Finished(root / "data", root / "outputs", root / "outputs" / FOLDER, said)


@pytest.fixture(scope="session")
def browser():
    """Chromium, without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no chromium on PATH: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
