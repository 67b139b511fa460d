//! x86-64, in the syntax of AT&T: the same instructions as `weir/tracepoint.h` has.

/// Does `$do` where the word at a symbol is not 0.
#[doc(hidden)]
#[macro_export]
macro_rules! __where_not_zero {
    (($symbol:expr) { $($do:tt)* }) => {
        // SAFETY: it reads a word that the notes define, and changes nothing but flags.
        unsafe {
            ::core::arch::asm!(
                ::core::concat!("cmpw $0, ", $symbol, "(%rip)"),
                "jne {on}",
                on = label { $($do)* },
                options(att_syntax, nostack, nomem),
            )
        }
    };
}

/// Assembly that changes nothing, with operands which a tracer reads there.
#[doc(hidden)]
#[macro_export]
macro_rules! __place {
    (($text:expr) $($operand:tt)*) => {
        // SAFETY: a nop. What a tracer puts in its place reads, and keeps every register.
        unsafe {
            ::core::arch::asm!($text, $($operand)* options(att_syntax, nostack, preserves_flags, readonly))
        }
    };
}

/// The same of an event whose arguments are words of a row, the address of which is in the register of [`__row_argument`].
#[doc(hidden)]
#[macro_export]
macro_rules! __place_with_row {
    (($text:expr) $row:ident $($operand:tt)*) => {
        // SAFETY: as above.
        unsafe {
            ::core::arch::asm!(
                $text,
                $($operand)*
                in("rsi") $row.as_ptr(),
                options(att_syntax, nostack, preserves_flags, readonly)
            )
        }
    };
}

/// That argument in the note.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __row_argument {
    () => { "8@%rsi" };
}

/// What tracers replace: one instruction of five bytes in one aligned word.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __nop {
    ($label:literal) => { ::core::concat!(".p2align 3\n", $label, ": .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n") };
}

/// The relocation that changes nothing.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __no_relocation {
    () => { "R_X86_64_NONE" };
}

/// The part of a register that an integer of this type takes, as a template names it.
#[doc(hidden)]
#[macro_export]
#[rustfmt::skip]
macro_rules! __part {
    (u8) => { ":l" };
    (i8) => { ":l" };
    (bool) => { ":l" };
    (u16) => { ":x" };
    (i16) => { ":x" };
    (u32) => { ":e" };
    (i32) => { ":e" };
    (char) => { ":e" };
    ($ty:ident) => { "" };
}
