//! Errors as C has them: a negative errno, and words that the calling thread may ask for.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::io;

use weir_bpf::RejectionKind;

/// Numbers of asm-generic/errno.h.
pub(crate) const ENOENT: c_int = 2;
pub(crate) const EIO: c_int = 5;
pub(crate) const E2BIG: c_int = 7;
pub(crate) const ENOMEM: c_int = 12;
pub(crate) const EACCES: c_int = 13;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const EFBIG: c_int = 27;
pub(crate) const ETIME: c_int = 62;
pub(crate) const EOPNOTSUPP: c_int = 95;

#[derive(Debug)]
pub(crate) struct Error {
    /// Positive.
    errno: c_int,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(errno: c_int, message: impl Into<String>) -> Error {
        Error { errno, message: message.into() }
    }

    /// Keeps the words for [`last`]; the negative number.
    pub(crate) fn keep(self) -> c_int {
        let message = CString::new(self.message.replace('\0', " ")).unwrap_or_default();
        LAST.with_borrow_mut(|last| *last = message);
        -self.errno
    }
}

impl From<weir_bpf::Error> for Error {
    fn from(error: weir_bpf::Error) -> Error {
        let words = match &error {
            weir_bpf::Error::Types(error) => format!("options.btf: {error}"),
            error => error.to_string(),
        };
        Error::new(errno_of(&error), words)
    }
}

fn errno_of(error: &weir_bpf::Error) -> c_int {
    use weir_bpf::Error as Of;
    let of_call = |error: &io::Error| error.raw_os_error().unwrap_or(EIO);
    match error {
        Of::InFile { error, .. } => errno_of(error),
        Of::File { source, .. } => of_call(source),
        Of::Loading(error) => of_call(error),
        Of::Memory(error) => match error.kind() {
            io::ErrorKind::OutOfMemory => ENOMEM,
            io::ErrorKind::FileTooLarge => EFBIG,
            _ => of_call(error),
        },
        Of::FileTooLarge { .. } | Of::Maps(_) | Of::DataTooLarge(_) => E2BIG,
        Of::NoProgram(_) | Of::NoMap(_) => ENOENT,
        Of::OtherContext(_) | Of::Jit(_) | Of::Overwrites(_) | Of::LimitedTailCalls => EOPNOTSUPP,
        Of::Rounds(_) => ETIME,
        Of::Rejected { kind: RejectionKind::Unsafe, .. } => EACCES,
        Of::Rejected { kind: RejectionKind::Unsupported, .. } => EOPNOTSUPP,
        Of::Rejected { kind: RejectionKind::TooBig, .. } => E2BIG,
        Of::Map(error) => error.errno(),
        Of::Object(_)
        | Of::Types(_)
        | Of::RaggedInstructions(_)
        | Of::NoRing(_)
        | Of::Data(_)
        | Of::RoundsLimit(_) => EINVAL,
        _ => EIO,
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The words of this thread's last error; empty if there was none.
pub(crate) fn last() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
