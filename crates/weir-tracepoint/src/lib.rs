//! Static tracepoints for Rust: what `weir/tracepoint.h` is for C and C++, with the same notes in the file.
//!
//! ```
//! # let (id, sum, name) = (7, 9.5, "tea");
//! weir_tracepoint::tracepoint!(shop, sale, (u32, customer, id), (f64, total, sum), (str, article, name));
//! ```
//!
//! While nobody traces the event it costs a comparison of a word in memory with 0 and a branch that is not taken, and
//! evaluates none of the values. Nothing is linked, started or registered; there is no build script. bpftrace, perf,
//! SystemTap and weir find the event in the file, and weir also its names and types.
//!
//! The macro holds the `unsafe` of its `asm!`, and the values stand outside of it. A crate that forbids `unsafe` cannot use it.

#![deny(missing_docs)]
#![no_std]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir-tracepoint: tracepoints are for Linux on x86-64 with 64-bit pointers");

mod isa;
mod site;
mod table;

#[doc(hidden)]
pub use crate::table::{Number, Row, label, member};

/// How much an event matters: LTTng's levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Level {
    /// The system is unusable.
    Emerg,
    /// Something must be done at once.
    Alert,
    /// A part has failed.
    Crit,
    /// A failure that the program goes on after.
    Err,
    /// Something that may become one.
    Warning,
    /// Normal, and worth to be seen.
    Notice,
    /// Normal.
    Info,
    /// For debugging: the whole system.
    DebugSystem,
    /// For debugging: one program.
    DebugProgram,
    /// For debugging: one process.
    DebugProcess,
    /// For debugging: one module.
    DebugModule,
    /// For debugging: one unit of compilation.
    DebugUnit,
    /// For debugging: one function.
    DebugFunction,
    /// For debugging: one line. That of a tracepoint that names none.
    DebugLine,
    /// For debugging: anything.
    Debug,
}

/// A tracepoint: `tracepoint!(provider, event, fields…)` or `tracepoint!(provider, event, level: Info, fields…)`.
///
/// Without a level it is [`Level::DebugLine`]. Values are evaluated in their order while somebody traces the event, and
/// not at all otherwise. A field is `(type, name, value)`:
///
/// | type | value |
/// |---|---|
/// | `u8` to `u64`, `i8` to `i64`, `usize`, `isize`, `bool`, `char` | a number; `hex u32` is shown in hexadecimal |
/// | `f32`, `f64` | a floating-point number |
/// | `str` | `&str` |
/// | `CStr` | `&CStr` or `Option<&CStr>` |
/// | `ptr` | a reference or raw pointer, which nobody follows |
/// | `[u16; 4]` | `&[u16; 4]` |
/// | `[u16]` | `&[u16]` |
/// | `enum i32 { RED = 0, GREEN = 5 }` | an `i32` whose values have these names |
/// | `struct Point { x: i32, y: f64 }` | `&Point`: these fields of it, which are numbers |
///
/// There are up to 32 fields. Of up to 12 arguments (a `str` and a slice take two, every other field one) each is in a register; those of
/// an event with more are put into a row of words on the stack, while somebody traces it. A name of a value or of a struct's field has
/// at most 47 bytes.
///
/// ```
/// use weir_tracepoint::tracepoint;
///
/// struct Point { x: i32, y: f64 }
/// let (color, point, bytes) = (5, Point { x: 1, y: 0.5 }, [1u8, 2, 3]);
/// tracepoint!(shop, painted, level: Info,
///     (enum i32 { RED = 0, GREEN = 5 }, color, color),
///     (struct Point { x: i32, y: f64 }, at, &point),
///     ([u8], bytes, &bytes[..]),
///     (hex u64, flags, 0x10));
/// ```
///
/// What is no such type is refused:
///
/// ```compile_fail
/// weir_tracepoint::tracepoint!(shop, sale, (i128, total, 5));
/// ```
#[macro_export]
macro_rules! tracepoint {
    ($provider:ident, $event:ident, level: $level:ident $(, ($($field:tt)*))* $(,)?) => {
        $crate::__way!(
            { $provider $event $level } { $(($($field)*))* } [a b c d e f g h i j k l] $(($($field)*))*
        )
    };
    ($provider:ident, $event:ident $(, ($($field:tt)*))* $(,)?) => {
        $crate::tracepoint!($provider, $event, level: DebugLine $(, ($($field)*))*)
    };
}
