# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HDF5 files of examples, made from a few words: {inputs: shape, type, classes | outputs | pixels: N} or {tokens: N, length}, with seed,
train, validation, test, weights."""
import h5py
import numpy


def write(path, content):
    numbers = numpy.random.Generator(numpy.random.PCG64(content["seed"]))
    with h5py.File(path, "w") as file:
        for split in ("train", "validation", "test"):
            examples = content[split]
            if examples == 0:
                continue
            if "tokens" in content:
                file[f"{split}/tokens"] = numbers.integers(0, content["tokens"], examples * content["length"] + 1).astype("i4")
                continue
            shape = (examples, *content["inputs"])
            noise = numbers.standard_normal(shape).astype("f4")
            file[f"{split}/inputs"] = numbers.integers(0, 256, shape).astype("u1") if content["type"] == "u8" else noise
            file[f"{split}/targets"] = targets(numbers, content, examples)
        if content.get("weights"):
            file["train/weights"] = numbers.random(content["train"]).astype("f4")


def targets(numbers, content, examples):
    if "classes" in content:
        return numbers.integers(0, content["classes"], examples).astype("i4")
    if "pixels" in content:
        return numbers.integers(0, content["pixels"], (examples, *content["inputs"][:2])).astype("i4")
    return numbers.random((examples, content["outputs"])).astype("f4")
