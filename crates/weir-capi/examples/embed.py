#!/usr/bin/env python3
"""Runs a program of an object on a packet and prints what it returned and counted: embed.py FILE.bpf.o PROGRAM MAP"""
import ctypes
import os
import sys

bpf = ctypes.CDLL("libweir_bpf.so.0")
bpf.weir_bpf_error.restype = ctypes.c_char_p
bpf.weir_bpf_open_file.restype = ctypes.c_void_p
bpf.weir_bpf_open_file.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
bpf.weir_bpf_load.restype = ctypes.c_void_p
bpf.weir_bpf_load.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t]
bpf.weir_bpf_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64)]
bpf.weir_bpf_map.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
bpf.weir_bpf_map_lookup.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
bpf.weir_bpf_unload.argtypes = [ctypes.c_void_p]
bpf.weir_bpf_close.argtypes = [ctypes.c_void_p]

# enum weir_bpf_engine
INTERPRETER, JIT = 0, 1


def fail(what):
    sys.exit(f"embed.py: {what}: {bpf.weir_bpf_error().decode()}")


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: embed.py FILE.bpf.o PROGRAM MAP")
    file, name, map_name = (argument.encode() for argument in sys.argv[1:])
    packet = (ctypes.c_ubyte * 64)()
    packet[12], packet[23] = 0x08, 17  # an Ethernet frame: IPv4, UDP

    bpf_object = bpf.weir_bpf_open_file(file, None) or fail("open")
    engine = INTERPRETER if os.environ.get("INTERPRETER") else JIT
    program = bpf.weir_bpf_load(bpf_object, name, engine, 0) or fail(sys.argv[2])
    verdict, count = ctypes.c_uint64(), ctypes.c_uint64()
    for _ in range(3):
        if bpf.weir_bpf_run(program, packet, len(packet), ctypes.byref(verdict)) < 0:
            fail("run")
    print(f"r0 = {verdict.value}")

    protocols = bpf.weir_bpf_map(bpf_object, map_name)
    for protocol in range(256):
        key = ctypes.c_uint32(protocol)
        if bpf.weir_bpf_map_lookup(bpf_object, protocols, ctypes.byref(key), ctypes.byref(count)) == 0 and count.value:
            print(f"{protocol}: {count.value}")
    bpf.weir_bpf_unload(program)
    bpf.weir_bpf_close(bpf_object)


main()
