"""Marks a shared library to be initialized before all others, as the linker's `-z initfirst` does.

Usage: initfirst.py FILE

The flag is a bit of the dynamic section's entry DT_FLAGS_1, which `-z nodelete` has made. For ELF of 64 bits, little-endian.
"""

import struct
import sys

PT_DYNAMIC, DT_FLAGS_1, DF_1_INITFIRST = 2, 0x6FFFFFFB, 0x20


def main():
    with open(sys.argv[1], "r+b") as file:
        data = file.read()
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"initfirst.py: {sys.argv[1]} is no ELF file of 64 bits, little-endian")
        (headers,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for header in range(headers, headers + size * count, size):
            kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", data, header)
            if kind != PT_DYNAMIC:
                continue
            for entry in range(start, start + length, 16):
                tag, flags = struct.unpack_from("<QQ", data, entry)
                if tag == DT_FLAGS_1:
                    file.seek(entry + 8)
                    file.write(struct.pack("<Q", flags | DF_1_INITFIRST))
                    return
    sys.exit(f"initfirst.py: {sys.argv[1]} has no entry DT_FLAGS_1")


main()
