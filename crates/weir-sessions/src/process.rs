//! Whether a process of a session still lives.

use std::path::Path;

use weir_process::processes::{ProcessId, Processes};

/// When a process started; none if there is none, or it has ended.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    let process = Processes::at(Path::new("/proc")).process(pid)?;
    process.has_program.then_some(process.id.start)
}

pub(crate) fn is_alive(id: ProcessId) -> bool {
    start_of(id.pid) == Some(id.start)
}

/// A tracer has it.
pub(crate) fn is_traced(id: ProcessId) -> bool {
    Processes::at(Path::new("/proc")).tracer(id.pid).is_some()
}
