# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Overrides that make the decks of inputs/ small: a few steps on little data."""
import pathlib

from idx import idx_images, idx_labels

INPUTS = pathlib.Path(__file__).resolve().parent.parent.parent / "inputs"
DECKS = sorted(INPUTS.glob("*.yaml"))


def import_data(folder, lockstep):
    """Imports small.h5 (images) and text.h5 in the folder, in which the function `lockstep` runs the program."""
    images, labels = idx_images(folder / "images", 300), idx_labels(folder / "labels", 300)
    lockstep("import", "idx", "--images", images, "--labels", labels, "--validation", 40, "--output", "small.h5")
    text = folder / "text.txt"
    text.write_text("".join(chr(32 + i * i % 65) for i in range(6000)))
    lockstep("import", "text", "--file", text, "--validation", 0.1, "--output", "text.h5")


def overrides(deck):
    """The overrides that make this deck of inputs/ small; the number of steps is left to the caller."""
    content = deck.read_text()
    if "file: text.h5" in content:
        return ["batch.global=4"]
    if "synthetic:" not in content:
        return ["data.file=small.h5"]
    large, wide = "224, 224" in content, "wide_resnet" in content
    few = large or wide or "resnet18_cifar" in content or "speech_cnn" in content
    batch = 2 if large or wide else 8
    return [*([f"data.synthetic.train={3 * batch}", f"data.synthetic.validation={batch}", f"batch.global={batch}"] if few else
              ["data.synthetic.train=256", "data.synthetic.validation=40"]),
            *(["data.synthetic.shape=[64, 64, 3]", "model.input=[64, 64, 3]"] if large else []), *(["model.widening=4"] if wide else [])]
