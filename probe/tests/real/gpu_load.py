"""Uses a GPU for a share of the time, through the driver alone (libcuda.so.1).

    gpu_load.py PERCENT SECONDS GIB

The kernel waits for a time of the GPU's clock, so the share does not depend on the model.
"""

import ctypes
import sys
import time

PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
  .reg .u64 %t<4>;
  .reg .pred %p;
  ld.param.u64 %t0, [nanoseconds];
  mov.u64 %t1, %globaltimer;
again:
  mov.u64 %t2, %globaltimer;
  sub.u64 %t3, %t2, %t1;
  setp.lt.u64 %p, %t3, %t0;
  @%p bra again;
  ret;
}
"""

SLICE = 0.02  # seconds of one kernel and the pause after it

percent, seconds, gib = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    status = getattr(cuda, name)(*arguments)
    if status:
        sys.exit(f"{name}: error {status}")


device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
memory = ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(gib << 30))
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(kernel), module, b"spin")

busy = ctypes.c_uint64(int(SLICE * percent / 100 * 1e9))
parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(busy), ctypes.c_void_p))
end = time.monotonic() + seconds
while (began := time.monotonic()) < end:
    if percent:
        call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
        call("cuCtxSynchronize")
    time.sleep(max(0, SLICE - (time.monotonic() - began)))
