"""Damages of files, for the tests of the program and of the tools that must see them."""

import os

import h5py


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_bit_of_number(path):
    """One bit in the middle of the largest array of numbers."""
    places = []

    def visit(_, item):
        if isinstance(item, h5py.Dataset) and item.id.get_offset() is not None:
            places.append((item.id.get_storage_size(), item.id.get_offset()))

    with h5py.File(path) as file:
        file.visititems(visit)
    size, offset = max(places)
    with open(path, "r+b") as file:
        file.seek(offset + size // 2)
        byte = file.read(1)[0]
        file.seek(offset + size // 2)
        file.write(bytes([byte ^ 0x10]))
