# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes small IDX files in the format of MNIST's."""
import gzip
import struct


def idx_file(path, values, *extents, magic=None):
    """Writes an IDX file of u8 values, gzipped if its name ends in .gz."""
    head = struct.pack(">I", magic if magic is not None else 0x0800 + len(extents))
    content = head + struct.pack(f">{len(extents)}I", *extents) + bytes(values)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def idx_images(path, count, height=28, width=28):
    """Writes images that are bright in a different place for each class."""
    values = bytearray(count * height * width)
    for i in range(count):
        for k in range(height * width):
            values[i * height * width + k] = 200 if (k // 7) % 10 == i % 10 else (31 * k + 17 * i) % 60
    return idx_file(path, values, count, height, width)


def idx_labels(path, count, classes=10):
    return idx_file(path, [i % classes for i in range(count)], count)
