"""Adds two rows of numbers on the first GPU by CUDA's driver, as a job's own program would: without any package.

Prints JSON: how many GPUs CUDA counts, the first one's name, and whether all sums are right; or what CUDA refused.
"""

import ctypes
import json
import os
import sys

PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry add(.param .u64 left, .param .u64 right, .param .u64 sum)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<8>;
    .reg .f32 %f<4>;
    ld.param.u64 %rd1, [left];
    ld.param.u64 %rd2, [right];
    ld.param.u64 %rd3, [sum];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd4, %r4, 4;
    add.u64 %rd5, %rd1, %rd4;
    add.u64 %rd6, %rd2, %rd4;
    add.u64 %rd7, %rd3, %rd4;
    ld.global.f32 %f1, [%rd5];
    ld.global.f32 %f2, [%rd6];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%rd7], %f3;
    ret;
}
"""
BLOCKS, THREADS = 4096, 256
NUMBERS = BLOCKS * THREADS


class Refused(Exception):
    """CUDA answered with an error."""


def call(name: str, *arguments: object) -> None:
    """Calls a function of CUDA's driver."""
    error = getattr(CUDA, name)(*arguments)
    if error:
        raise Refused(f"{name}: {error}")


def main() -> dict[str, object]:
    """Computes."""
    call("cuInit", 0)
    count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGetCount", ctypes.byref(count))
    call("cuDeviceGet", ctypes.byref(device), 0)
    name = ctypes.create_string_buffer(100)
    call("cuDeviceGetName", name, len(name), device)
    call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
    row = ctypes.c_float * NUMBERS
    left, right, sums = row(*range(NUMBERS)), row(*([0.5] * NUMBERS)), row()
    places = [ctypes.c_uint64() for _ in range(3)]
    for place in places:
        call("cuMemAlloc_v2", ctypes.byref(place), ctypes.sizeof(row))
    for place, numbers in zip(places[:2], (left, right), strict=True):
        call("cuMemcpyHtoD_v2", place, numbers, ctypes.sizeof(row))
    given = (ctypes.c_void_p * 3)(*(ctypes.cast(ctypes.byref(place), ctypes.c_void_p).value for place in places))
    call("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, None, given, None)
    call("cuCtxSynchronize")
    call("cuMemcpyDtoH_v2", sums, places[2], ctypes.sizeof(row))
    right_sums = all(sums[number] == number + 0.5 for number in range(NUMBERS))
    return {"gpus": count.value, "name": name.value.decode(), "sums": right_sums}


if __name__ == "__main__":
    answer: dict[str, object] = {"visible": os.environ.get("CUDA_VISIBLE_DEVICES")}
    try:
        CUDA = ctypes.CDLL("libcuda.so.1")
        answer.update(main())
    except (OSError, Refused) as error:
        answer["refused"] = str(error)
    json.dump(answer, sys.stdout)
    print()
