//! An independent count of calls: a kernel uprobe on a function of a binary, counted by perf_event_open(2).
//!
//! In: a file, an offset in it, a command. Out: how often that instruction was run by the command (its threads too,
//! from its first instruction on; not the processes that it starts), and its output. The child is held before exec;
//! the event is enabled by the exec itself (`enable_on_exec`), inherited by threads alone (`inherit_thread`, Linux
//! 5.13), and read when the child has ended.
//!
//! The uprobe is defined in tracefs and counted as a tracepoint. The uprobe PMU, which needs no tracefs, cannot be
//! inherited: for each new thread the kernel reads the path from the memory of the *traced* process, and clone(2)
//! fails there with EFAULT. Needs root, a kernel with CONFIG_UPROBE_EVENTS, and tracefs, which is mounted if it is not.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::libc;

use crate::wait;

const TRACEFS: &str = "/sys/kernel/tracing";

/// Why a count cannot be made here.
#[derive(Debug)]
pub struct Unavailable {
    /// The call that failed, and the remedy.
    pub what: String,
    pub source: io::Error,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Runs `command` (its first word is searched in `$PATH`), with no standard input, and counts its hits of the
/// instruction at `file_offset` of `binary`.
pub fn count_hits<S: AsRef<OsStr>>(
    binary: &Path,
    file_offset: u64,
    command: &[S],
) -> Result<(u64, Output), Unavailable> {
    let (program, arguments) = command.split_first().expect("a command has at least one word");
    let mut command = Command::new(program);
    command.args(arguments);
    count_hits_of(binary, file_offset, command)
}

/// The same with a prepared command, such as one with an environment; its standard streams are replaced.
pub fn count_hits_of(
    binary: &Path,
    file_offset: u64,
    mut command: Command,
) -> Result<(u64, Output), Unavailable> {
    let defined = Defined::new(binary, file_offset)?;
    let (mut pid_out, pid_in) = io::pipe().map_err(|e| unavailable("pipe", e))?;
    let (go_out, mut go_in) = io::pipe().map_err(|e| unavailable("pipe", e))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (pid_fd, go_fd, own_go_fd) = (pid_in.as_raw_fd(), go_out.as_raw_fd(), go_in.as_raw_fd());
    // SAFETY: between fork and exec the closure makes system calls on plain integers alone: it allocates nothing
    // and takes no lock. The descriptors live in the parent until spawn has returned.
    unsafe { command.pre_exec(move || hold(pid_fd, go_fd, own_go_fd)) };

    // spawn() returns only after the exec, which waits for the event: so it runs on a thread of its own.
    let child = std::thread::spawn(move || {
        let child = command.spawn();
        drop((pid_in, go_out));
        // The command's own copies of the pipes, if any, go with it.
        drop(command);
        child.and_then(|c| c.wait_with_output())
    });
    let mut pid = [0; 4];
    let event = pid_out
        .read_exact(&mut pid)
        .map_err(|e| unavailable("start the command", e))
        .and_then(|()| open_event(&defined, i32::from_ne_bytes(pid)));
    // Without an event the child is let go by closing the pipe: it then exits instead of running uncounted.
    if event.is_ok() {
        let _ = go_in.write_all(&[1]);
    }
    drop(go_in);
    let output = child.join().unwrap_or_else(|_| Err(io::Error::other("the spawning thread panicked")));
    let mut event = File::from(event?);
    let output = output.map_err(|e| unavailable("run the command", e))?;
    let mut count = [0; 8];
    event.read_exact(&mut count).map_err(|e| unavailable("read the event's count", e))?;
    drop((event, defined));
    Ok((u64::from_ne_bytes(count), output))
}

/// A uprobe defined in tracefs; dropping it removes the definition.
struct Defined {
    name: String,
    id: u64,
}

impl Defined {
    fn new(binary: &Path, file_offset: u64) -> Result<Defined, Unavailable> {
        static CALL: AtomicU32 = AtomicU32::new(0);
        mount_tracefs()?;
        let file = File::open(binary).map_err(|e| unavailable(&format!("open {}", binary.display()), e))?;
        let name =
            format!("weir_testkit/hits_{}_{}", std::process::id(), CALL.fetch_add(1, Ordering::Relaxed));
        // Through the descriptor: the definition's syntax has no escape for blanks or colons in paths.
        let command = format!("p:{name} /proc/self/fd/{}:{file_offset:#x}", file.as_raw_fd());
        write_definition(&command)?;
        let mut defined = Defined { name, id: 0 };
        let path = format!("{TRACEFS}/events/{}/id", defined.name);
        let text = fs::read_to_string(&path).map_err(|e| unavailable(&format!("read {path}"), e))?;
        defined.id =
            text.trim().parse().map_err(|_| unavailable(&path, io::ErrorKind::InvalidData.into()))?;
        Ok(defined)
    }
}

impl Drop for Defined {
    fn drop(&mut self) {
        // The last count of the event is closed a moment before; the kernel may still hold the definition for it.
        let command = format!("-:{}", self.name);
        wait::until(Duration::from_secs(60), || write_definition(&command).is_ok());
    }
}

/// Mounts tracefs where it is not.
pub fn mount_tracefs() -> Result<(), Unavailable> {
    let definitions = Path::new(TRACEFS).join("uprobe_events");
    if definitions.exists() {
        return Ok(());
    }
    let (none, flags) = (None::<&str>, nix::mount::MsFlags::empty());
    let mounted = nix::mount::mount(none, TRACEFS, Some("tracefs"), flags, none);
    // Another test may have been faster.
    if definitions.exists() {
        return Ok(());
    }
    let source = mounted.err().map_or(io::ErrorKind::NotFound.into(), io::Error::from);
    Err(unavailable(&format!("mount tracefs at {TRACEFS} (needs root and CONFIG_UPROBE_EVENTS)"), source))
}

fn write_definition(command: &str) -> Result<(), Unavailable> {
    // Appended: opening it to truncate would remove every definition.
    let file = OpenOptions::new().append(true).open(Path::new(TRACEFS).join("uprobe_events"));
    file.and_then(|mut f| f.write_all(command.as_bytes()))
        .map_err(|e| unavailable(&format!("write \"{command}\" to {TRACEFS}/uprobe_events (needs root)"), e))
}

/// In the child, before exec: tells its pid and waits for one byte. Without it, exec does not happen.
fn hold(pid_fd: i32, go_fd: i32, other_go_fd: i32) -> io::Result<()> {
    // SAFETY: getpid takes nothing.
    let pid = unsafe { libc::getpid() }.to_ne_bytes();
    // SAFETY: writes 4 bytes from a local array.
    if unsafe { libc::write(pid_fd, pid.as_ptr().cast(), pid.len()) } != 4 {
        return Err(io::Error::last_os_error());
    }
    // The child's copy of the parent's end: while it is open, the pipe does not end with the parent's.
    // SAFETY: closes a descriptor of this process, which nothing else in it uses before exec.
    unsafe { libc::close(other_go_fd) };
    let mut byte = 0u8;
    loop {
        // SAFETY: reads 1 byte into a local.
        let n = unsafe { libc::read(go_fd, (&raw mut byte).cast(), 1) };
        match n {
            1 => return Ok(()),
            0 => return Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(io::Error::last_os_error()),
        }
    }
}

/// `struct perf_event_attr` as of Linux 5.13 (PERF_ATTR_SIZE_VER7); the fields that a tracepoint needs have names.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    /// The tracepoint's id.
    config: u64,
    sample: [u64; 3],
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    rest: [u64; 9],
}

const _: () = assert!(size_of::<Attributes>() == 128);

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: u64 = 8;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const ENABLE_ON_EXEC: u64 = 1 << 12;
const INHERIT_THREAD: u64 = 1 << 35;

fn open_event(defined: &Defined, pid: i32) -> Result<OwnedFd, Unavailable> {
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: defined.id,
        sample: [0; 3],
        flags: DISABLED | INHERIT | ENABLE_ON_EXEC | INHERIT_THREAD,
        wakeup: 0,
        breakpoint: 0,
        rest: [0; 9],
    };
    let (any_cpu, no_group) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes, which outlive the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            any_cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        let what = format!("perf_event_open of {} (needs root or CAP_PERFMON)", defined.name);
        return Err(unavailable(&what, io::Error::last_os_error()));
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn unavailable(what: &str, source: io::Error) -> Unavailable {
    Unavailable { what: what.into(), source }
}
