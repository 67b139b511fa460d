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

/// LIMIT: how long a library takes to be loaded.
const LOAD_MAX: Duration = Duration::from_secs(5);
/// LIMIT: what the dynamic linker and constructors may need of the thread's stack.
const STACK_BYTES_MIN: u64 = 64 << 10;
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
    let inside = fs::canonicalize(path).map_err(|error| refused(error.to_string()))?;
    let seen = fs::metadata(root(pid).join(inside.strip_prefix("/").unwrap_or(&inside)));
    let own = fs::metadata(&inside).map_err(|error| refused(error.to_string()))?;
    if !seen.is_ok_and(|seen| (seen.dev(), seen.ino()) == (own.dev(), own.ino())) {
        return Err(refused("the process has other files (a container?), and not this one there".to_owned()));
    }
    Binary::open(&inside).map_err(|error| refused(error.to_string()))?;
    let text = CString::new(inside.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
    if text.as_bytes_with_nul().len() > limits::LOADED_PATH_BYTES_MAX {
        return Err(refused("the path is too long".to_owned()));
    }
    let mappings = read_mappings(pid)?;
    let is_there =
        |mappings: &[Mapping]| mappings.iter().any(|mapping| mapping.inode == own.ino() && mapping.execute);
    if is_there(&mappings) {
        return Ok(());
    }
    let function = dlopen(pid, &mappings)
        .ok_or_else(|| refused("the program is static, or its C library has no dlopen(3)".to_owned()))?;
    let memory = Memory::open(sys::living_thread(pid)).map_err(|source| Error::no_access(pid, source))?;
    let gadgets = Gadgets::find(pid, &memory, &mappings)?;
    let waiting = |tid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
        waits_in(pid, *tid).is_some_and(|call| is_suited(name.trim_end(), call))
    };
    let threads = sys::threads(pid).map_err(|_| Error::TargetGone { pid })?;
    let no_thread = || refused("none of its threads waits where that could be done".to_owned());
    let tid = threads.into_iter().find(waiting).ok_or_else(no_thread)?;
    if sys::has_seccomp(tid) || sys::has_shadow_stack(tid) {
        return Err(refused(
            "the thread that would do it is under seccomp, or has a shadow stack".to_owned(),
        ));
    }
    let stopped = Stopped::stop_thread(pid, tid, limits::STOP_MAX)?;
    // It may have gone on meanwhile.
    let registers = stopped.registers(tid)?;
    let call = registers.interrupted_call().ok_or_else(no_thread)?;
    let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    if !is_suited(name.trim_end(), call) {
        return Err(no_thread());
    }
    let top = registers.stack_pointer();
    let stack = mappings.iter().find(|mapping| mapping.start.0 <= top && top < mapping.end.0);
    if !stack.is_some_and(|stack| stack.path == "[stack]" || top - stack.start.0 >= STACK_BYTES_MIN) {
        return Err(refused(format!(
            "the thread that would do it has less than {STACK_BYTES_MIN} bytes of stack left"
        )));
    }
    let flags = (libc::RTLD_NOW | libc::RTLD_NODELETE) as u64;
    send_to(&stopped, tid, (&memory, gadgets), function, (text.as_bytes_with_nul(), flags))?;
    stopped.resume();
    let began = Instant::now();
    while began.elapsed() < LOAD_MAX {
        if is_there(&read_mappings(pid)?) {
            return Ok(());
        }
        thread::sleep(POLL);
    }
    Err(refused(
        "its dynamic linker refuses it: LD_DEBUG=files, or a program of your own, says why".to_owned(),
    ))
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
