//! A library that a running process is made to load.
//!
//! One of its threads that waits in a system call, and holds no lock there, is stopped, and pointed at dlopen(3) with a way back to
//! where it was; no other thread is stopped. It is let go at once: loading is the process's own work, and goes on if weir ends.
//! Whether it has been done is seen in the process's mappings.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use weir_symbols::Binary;
use weir_symbols::maps::{self, Mapping};

use crate::limits;
use crate::process::isa::native::remote::{Gadgets, send_to};
use crate::process::memory::Memory;
use crate::process::stop::Stopped;
use crate::process::sys;
use crate::process::target::{check, read_mappings, root};
use crate::refusal::Error;

const POLL: Duration = Duration::from_millis(5);

/// Has process `pid` load the library at `path`, by a thread of which `is_suited` says yes, given its name and the number of the system
/// call that it waits in. Loaded means mapped: its constructors may still be running.
///
/// # Errors
/// If the process may not be traced, if it has no such thread or no dlopen(3), if it sees another file at `path`, and if it does not load
/// the library.
pub fn load_library(pid: i32, path: &Path, is_suited: &dyn Fn(&str, i64) -> bool) -> Result<(), Error> {
    check(pid)?;
    let refused = |why: String| Error::NotLoaded { pid, path: path.to_owned(), why };
    let path = fs::canonicalize(path).map_err(|error| refused(error.to_string()))?;
    if !sees(pid, &path) {
        return Err(refused("the process has other files (a container?), and not this one there".to_owned()));
    }
    let binary = Binary::open(&path).map_err(|error| refused(error.to_string()))?;
    let text = CString::new(path.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
    if text.as_bytes_with_nul().len() > limits::LOADED_PATH_BYTES_MAX {
        return Err(refused("the path is too long".to_owned()));
    }
    let is_there = |mappings: &[Mapping]| maps::identity_of(mappings, &binary, &path).is_some();
    let mappings = read_mappings(pid)?;
    if is_there(&mappings) {
        return Ok(());
    }
    let function = dlopen(pid, &mappings)
        .ok_or_else(|| refused("the program is static, or its C library has no dlopen(3)".to_owned()))?;
    let memory = Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))?;
    let gadgets = Gadgets::find(pid, &memory, &mappings)?;
    let threads = sys::threads(pid).map_err(|_| Error::TargetGone { pid })?;
    let is_waiting = |tid: &i32| waits_in(pid, *tid).is_some_and(|call| is_suited(&name(pid, *tid), call));
    let no_thread = || refused("none of its threads waits where that could be done".to_owned());
    let tid = threads.into_iter().find(is_waiting).ok_or_else(no_thread)?;
    if sys::has_seccomp(tid) || sys::has_shadow_stack(tid) {
        return Err(refused(
            "the thread that would do it is under seccomp, or has a shadow stack".to_owned(),
        ));
    }
    let stopped = Stopped::stop_thread(pid, tid, limits::STOP_MAX)?;
    let registers = stopped.registers(tid)?;
    // It may have gone on meanwhile.
    let call = registers.interrupted_call().ok_or_else(no_thread)?;
    if !is_suited(&name(pid, tid), call) {
        return Err(no_thread());
    }
    if !has_room(&mappings, registers.stack_pointer()) {
        let least = limits::LOADING_STACK_BYTES_MIN;
        return Err(refused(format!(
            "the thread that would do it has less than {least} bytes of stack left"
        )));
    }
    let flags = (libc::RTLD_NOW | libc::RTLD_NODELETE) as u64;
    send_to(&stopped, tid, (&memory, gadgets), function, (text.as_bytes_with_nul(), flags))?;
    stopped.resume();
    let began = Instant::now();
    while began.elapsed() < limits::LOADING_MAX {
        if is_there(&read_mappings(pid)?) {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    Err(refused(
        "its dynamic linker refuses it: LD_DEBUG=files, or a program of your own, says why".to_owned(),
    ))
}

/// The file of this path, without links, is the same to the process.
fn sees(pid: i32, path: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let theirs = root(pid).join(path.strip_prefix("/").unwrap_or(path));
    identity(path).is_some_and(|own| identity(&theirs) == Some(own))
}

/// Below the stack pointer there is room for the dynamic linker. The main thread's stack grows.
fn has_room(mappings: &[Mapping], stack_pointer: u64) -> bool {
    let is_stack = |mapping: &&Mapping| mapping.start.0 <= stack_pointer && stack_pointer < mapping.end.0;
    mappings.iter().find(is_stack).is_some_and(|stack| {
        stack.path == "[stack]" || stack_pointer - stack.start.0 >= limits::LOADING_STACK_BYTES_MIN
    })
}

fn name(pid: i32, tid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    text.trim_end().to_owned()
}

/// The number of the system call that a thread waits in.
fn waits_in(pid: i32, tid: i32) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Where the process has dlopen(3): in its C library, before glibc 2.34 in libdl.
fn dlopen(pid: i32, mappings: &[Mapping]) -> Option<u64> {
    let is_libc = |mapping: &&Mapping| {
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        mapping.execute
            && ["libc.so", "libc-", "libdl", "ld-musl"].iter().any(|start| name.starts_with(start))
    };
    mappings.iter().filter(is_libc).find_map(|mapping| {
        let binary = Binary::open(&root(pid).join(mapping.path.trim_start_matches('/'))).ok()?;
        let (address, _) = binary.symbol_value("dlopen")?;
        let bias = *maps::load_biases(mappings, mapping.identity(), &binary).first()?;
        Some(bias.wrapping_add(address.0))
    })
}
