//! The constructor, which runs when the application loads the plugin, and the commands that it registers.
//!
//! EAL is not initialised then; its telemetry takes commands all the same. In a process without DPDK nothing is done.

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::control;
use crate::dpdk::{self, Command, Telemetry};

static TELEMETRY: OnceLock<Telemetry> = OnceLock::new();

#[used]
// SAFETY: the dynamic linker calls what stands in this section once, without arguments that are needed.
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    let _ = catch_unwind(|| {
        let Ok(telemetry) = Telemetry::find() else { return };
        let telemetry = TELEMETRY.get_or_init(|| telemetry);
        let commands: [(&std::ffi::CStr, Command, &std::ffi::CStr); 3] = [
            (c"/weir/info", on_info, c"Says whether weir captures packets here. Takes no parameters"),
            (c"/weir/start", on_start, c"Captures packets into shared memory. Parameters: int pid, int fd"),
            (c"/weir/stop", on_stop, c"Ends that. Takes no parameters"),
        ];
        for (name, function, help) in commands {
            // SAFETY: the texts are always valid, and the functions are what DPDK's type asks for.
            unsafe { (telemetry.rte_telemetry_register_cmd)(name.as_ptr(), function, help.as_ptr()) };
        }
    });
}

/// # Safety
/// Called by DPDK's telemetry.
unsafe extern "C" fn on_info(_: *const c_char, _: *const c_char, answer: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { reply(answer, |telemetry| Ok(control::info(telemetry))) }
}

/// # Safety
/// Called by DPDK's telemetry.
unsafe extern "C" fn on_start(_: *const c_char, parameters: *const c_char, answer: *mut c_void) -> c_int {
    // SAFETY: DPDK passes a text, or null where there is none.
    let parameters = unsafe { dpdk::text(parameters) };
    // SAFETY: the caller's promise.
    unsafe {
        reply(answer, |telemetry| control::start(telemetry, &parameters).map(|words| format!("ok: {words}")))
    }
}

/// # Safety
/// Called by DPDK's telemetry.
unsafe extern "C" fn on_stop(_: *const c_char, _: *const c_char, answer: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { reply(answer, |telemetry| control::stop(telemetry).map(|words| format!("ok: {words}"))) }
}

/// # Safety
/// `answer` is a `struct rte_tel_data` that may be written.
unsafe fn reply(answer: *mut c_void, work: impl FnOnce(&Telemetry) -> Result<String, String>) -> c_int {
    let Some(telemetry) = TELEMETRY.get() else { return -1 };
    let words = catch_unwind(AssertUnwindSafe(|| work(telemetry)));
    let words = match words {
        Ok(Ok(words)) => words,
        Ok(Err(error)) => format!("error: {error}"),
        Err(_) => "error: a fault of weir's own; the application's standard error has it".to_owned(),
    };
    let words = CString::new(words.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the caller's promise; the text is copied.
    unsafe { (telemetry.rte_tel_data_string)(answer, words.as_ptr()) }
}
