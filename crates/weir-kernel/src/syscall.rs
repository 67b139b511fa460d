//! bpf(2): commands and the beginnings of `union bpf_attr` that they take; the kernel takes the rest as zeros.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use nix::libc;

pub(crate) const MAP_CREATE: libc::c_long = 0;
pub(crate) const PROG_LOAD: libc::c_long = 5;
pub(crate) const PROG_TEST_RUN: libc::c_long = 10;
pub(crate) const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
pub(crate) const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
pub(crate) const BTF_LOAD: libc::c_long = 18;
pub(crate) const LINK_CREATE: libc::c_long = 28;
pub(crate) const ITER_CREATE: libc::c_long = 33;

/// `enum bpf_attach_type`.
pub(crate) const TRACE_FENTRY: u32 = 24;
pub(crate) const TRACE_FEXIT: u32 = 25;
pub(crate) const TRACE_ITER: u32 = 28;
pub(crate) const PERF_EVENT: u32 = 41;
pub(crate) const TRACE_KPROBE_MULTI: u32 = 42;
pub(crate) const TRACE_UPROBE_MULTI: u32 = 48;
pub(crate) const TRACE_KPROBE_SESSION: u32 = 56;
pub(crate) const TRACE_UPROBE_SESSION: u32 = 57;

/// In the `flags` of a link of many uprobes or kprobes: they are at returns.
pub(crate) const MULTI_RETURN: u32 = 1;

/// `src` of a wide load: a map, or the address of its first value, by descriptor.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;
pub(crate) const PSEUDO_MAP_VALUE: u8 = 2;

/// For MAP_CREATE.
#[repr(C)]
pub(crate) struct MapCreate {
    pub(crate) map_type: u32,
    pub(crate) key_size: u32,
    pub(crate) value_size: u32,
    pub(crate) max_entries: u32,
    pub(crate) map_flags: u32,
    pub(crate) inner_map_fd: u32,
    pub(crate) numa_node: u32,
    pub(crate) map_name: [u8; 16],
    /// Interface, BTF and types: none.
    pub(crate) other: [u32; 5],
    pub(crate) map_extra: u64,
}

/// For the commands on one element. Addresses are of buffers of the map's sizes, or 0.
#[repr(C)]
pub(crate) struct Element {
    pub(crate) map_fd: u32,
    pub(crate) padding: u32,
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) flags: u64,
}

/// For PROG_LOAD.
#[repr(C)]
#[derive(Default)]
pub(crate) struct ProgLoad {
    pub(crate) prog_type: u32,
    pub(crate) insn_cnt: u32,
    pub(crate) insns: u64,
    pub(crate) license: u64,
    pub(crate) log_level: u32,
    pub(crate) log_size: u32,
    pub(crate) log_buf: u64,
    pub(crate) kern_version: u32,
    pub(crate) prog_flags: u32,
    pub(crate) prog_name: [u8; 16],
    pub(crate) prog_ifindex: u32,
    pub(crate) expected_attach_type: u32,
    pub(crate) prog_btf_fd: u32,
    pub(crate) func_info_rec_size: u32,
    pub(crate) func_info: u64,
    pub(crate) func_info_cnt: u32,
    pub(crate) line_info_rec_size: u32,
    pub(crate) line_info: u64,
    pub(crate) line_info_cnt: u32,
    pub(crate) attach_btf_id: u32,
}

/// For BTF_LOAD.
#[repr(C)]
#[derive(Default)]
pub(crate) struct BtfLoad {
    pub(crate) btf: u64,
    pub(crate) btf_log_buf: u64,
    pub(crate) btf_size: u32,
    pub(crate) btf_log_size: u32,
    pub(crate) btf_log_level: u32,
    pub(crate) btf_flags: u32,
}

/// For PROG_TEST_RUN.
#[repr(C)]
#[derive(Default)]
pub(crate) struct TestRun {
    pub(crate) prog_fd: u32,
    pub(crate) retval: u32,
    pub(crate) data_size_in: u32,
    pub(crate) data_size_out: u32,
    pub(crate) data_in: u64,
    pub(crate) data_out: u64,
    pub(crate) repeat: u32,
    pub(crate) duration: u32,
    pub(crate) ctx_size_in: u32,
    pub(crate) ctx_size_out: u32,
    pub(crate) ctx_in: u64,
    pub(crate) ctx_out: u64,
}

/// For LINK_CREATE of many uprobes at once. Addresses are of arrays of `count` elements, or 0.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LinkUprobes {
    pub(crate) prog_fd: u32,
    pub(crate) target_fd: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
    pub(crate) path: u64,
    pub(crate) offsets: u64,
    pub(crate) ref_ctr_offsets: u64,
    pub(crate) cookies: u64,
    pub(crate) count: u32,
    pub(crate) uprobe_flags: u32,
    pub(crate) pid: u32,
    /// The kernel takes no other bytes than zeros after what it knows.
    pub(crate) padding: u32,
}

/// For LINK_CREATE of many kprobes at once. Of the two arrays of `count` elements one is there, the other is 0.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LinkKprobes {
    pub(crate) prog_fd: u32,
    pub(crate) target_fd: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
    pub(crate) kprobe_flags: u32,
    pub(crate) count: u32,
    /// Addresses of names.
    pub(crate) names: u64,
    /// Entries of functions.
    pub(crate) entries: u64,
    pub(crate) cookies: u64,
}

/// For LINK_CREATE of a perf event.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LinkPerfEvent {
    pub(crate) prog_fd: u32,
    pub(crate) target_fd: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
    pub(crate) cookie: u64,
}

/// For LINK_CREATE of an iterator.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LinkIter {
    pub(crate) prog_fd: u32,
    pub(crate) target_fd: u32,
    pub(crate) attach_type: u32,
    pub(crate) flags: u32,
    /// What is listed of it: all.
    pub(crate) info: u64,
    pub(crate) info_len: u32,
    pub(crate) padding: u32,
}

/// For ITER_CREATE.
#[repr(C)]
pub(crate) struct IterCreate {
    pub(crate) link_fd: u32,
    pub(crate) flags: u32,
}

/// For RAW_TRACEPOINT_OPEN.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawTracepoint {
    /// Address of its name, or 0: the program was loaded for what it is attached to.
    pub(crate) name: u64,
    pub(crate) prog_fd: u32,
    pub(crate) padding: u32,
}

/// For OBJ_GET_INFO_BY_FD.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) fd: u32,
    pub(crate) len: u32,
    pub(crate) info: u64,
}

/// `struct bpf_prog_info` up to and with `recursion_misses` (Linux 5.12).
#[repr(C)]
pub(crate) struct ProgInfo {
    pub(crate) before: [u8; PROG_INFO_MISSES],
    pub(crate) recursion_misses: u64,
}

/// Where `recursion_misses` stands.
const PROG_INFO_MISSES: usize = 208;

/// `struct perf_event_attr` (PERF_ATTR_SIZE_VER1: 72 bytes).
#[repr(C)]
#[derive(Default)]
pub(crate) struct PerfEventAttr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_events: u32,
    pub(crate) bp_type: u32,
    /// Address of a uprobe's path, or of a kprobe's name; what is watched.
    pub(crate) config1: u64,
    /// Offset in the file, or behind the entry; how many bytes are watched.
    pub(crate) config2: u64,
}

impl PerfEventAttr {
    /// Empty, but for its size.
    pub(crate) fn sized() -> PerfEventAttr {
        PerfEventAttr { size: size_of::<PerfEventAttr>() as u32, ..PerfEventAttr::default() }
    }
}

/// perf_event_open(2): the descriptor is closed at an exec.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// A perf event of process `pid` or, with -1, of all; on one CPU or, with -1, on all.
///
/// # Safety
/// As for [`command`].
pub(crate) unsafe fn perf_event_open(attributes: &PerfEventAttr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size` bytes of the attributes, and the path that they name.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            pid,
            cpu,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
}

/// What the kernel calls a map or program, so that its own tools show it: 15 bytes of letters, digits, `_` and `.`;
/// other characters become `_`.
pub(crate) fn object_name(name: &str) -> [u8; 16] {
    let allowed = |char: char| char.is_ascii_alphanumeric() || char == '.';
    let mut bytes = [0; 16];
    for (byte, char) in bytes[..15].iter_mut().zip(name.chars()) {
        *byte = if allowed(char) { char as u8 } else { b'_' };
    }
    bytes
}

/// A command that answers in its attributes or in buffers that they name.
///
/// # Safety
/// The addresses in the attributes must be of live buffers of the sizes that they, or the map, state.
pub(crate) unsafe fn command<T>(command: libc::c_long, attributes: &mut T) -> io::Result<RawFd> {
    // SAFETY: the kernel reads and writes `size_of::<T>()` bytes of the attributes, and what the caller promises.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes as *mut T, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

/// A command that answers with a new descriptor.
///
/// # Safety
/// As for [`command`]; and it is one of those.
pub(crate) unsafe fn open<T>(number: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; a new descriptor is nobody else's.
    unsafe { Ok(OwnedFd::from_raw_fd(command(number, attributes)?)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_what_the_kernel_allows() {
        let check = |name: &str, wanted: &[u8]| {
            let found = object_name(name);
            assert_eq!(&found[..wanted.len()], wanted, "{name}");
            assert!(found[wanted.len()..].iter().all(|byte| *byte == 0), "{name}");
        };
        check("", b"");
        check("counts", b"counts");
        check("prog.rodata", b"prog.rodata");
        check("@bytes[1] \0\u{e9}\u{1f600}", b"_bytes_1_____");
        check("a_name_of_more_than_fifteen", b"a_name_of_more_");
    }
}
