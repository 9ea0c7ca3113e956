//! The records of the kernel half, generated from `ebpf/event.h` by `probe/build/records.rs`.

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
