"""How the compiled loops are built. (What they compute is compared in tests/models.)"""

from __future__ import annotations

import shlex

from torch.utils import cpp_extension

from lib import native


def test_an_environment_whose_path_has_blanks_and_quotes(tmp_path, monkeypatch):
    """torch hands the folder of its libraries to the linker through a shell, as it stands."""
    seen = []
    path = f"{tmp_path}/it's my environment/torch/lib"
    monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", path)
    monkeypatch.setattr(
        cpp_extension, "load", lambda *_, **__: seen.append(cpp_extension.TORCH_LIB_PATH)
    )
    native._compile(tmp_path)
    assert [shlex.split(f"-L{text}") for text in seen] == [[f"-L{path}"]]
