//! Errors as C has them: a negative errno, and words that the calling thread may ask for.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::fmt::Display;

/// Numbers of asm-generic/errno.h.
pub(crate) const ENOENT: c_int = 2;
pub(crate) const EIO: c_int = 5;
pub(crate) const E2BIG: c_int = 7;
pub(crate) const ENOMEM: c_int = 12;
pub(crate) const EACCES: c_int = 13;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const EFBIG: c_int = 27;
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

    /// The same, of a file.
    pub(crate) fn in_file(self, path: &impl Display) -> Error {
        Error { message: format!("{path}: {}", self.message), ..self }
    }

    /// Keeps the words for [`last`]; the negative number.
    pub(crate) fn keep(self) -> c_int {
        let message = CString::new(self.message.replace('\0', " ")).unwrap_or_default();
        LAST.with_borrow_mut(|last| *last = message);
        -self.errno
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The words of this thread's last error; empty if there was none.
pub(crate) fn last() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
