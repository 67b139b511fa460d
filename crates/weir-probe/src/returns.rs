//! Plans how the returns of functions are caught, from their files alone.
//!
//! In: functions of binaries. Out: for each the way in which its return can be caught, or the [`Refusal`].
//!
//! - *call-through*: the trampoline calls the function, and the function returns to the trampoline. What it keeps lies
//!   on the stack between the caller's frame and the function's, so this is only for functions that are proved neither
//!   to read nor to take the address of anything at or above their return address.
//! - *replacement*: the return address is replaced by that of a stub. Not here yet.

use weir_symbols::{Binary, Function};

use crate::refusal::Refusal;

/// How a return is caught.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// The trampoline calls the function.
    CallThrough {
        /// Tail calls may lead from the function back to it, so how deep they nest is counted.
        recurs: bool,
    },
    /// The return address is replaced.
    Replace,
}

/// Plans the return of every function from its file alone. No process is needed.
pub fn plan_returns(functions: &[(&Binary, &Function)]) -> Vec<Result<Returns, Refusal>> {
    functions.iter().map(|_| Err(Refusal::ReturnUnsupported)).collect()
}
